"""Kinds of servers, a file each: how they tell themselves, are asked, and are read."""
