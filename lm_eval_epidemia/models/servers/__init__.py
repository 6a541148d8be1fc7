"""Kinds of servers, one file each: how to recognise, ask and read them."""
