"""Quantities: numbers about a slice of a survey, with their truth and baseline draws.

A quantity is a mean or a proportion among the people whom some conditions describe. Sets of them
ship; others are drawn from any survey of the catalogue (`epidemia quantities new`).
"""
