/**
 * Separates user and key in a stored unique key, so that users cannot hold or replace each other's keys. User names and keys
 * contain no control characters, so the separator is unambiguous.
 */
export const USER_SEPARATOR = "\u001f";

/** Separates a key and its calendar period, so that each period has a different key. */
export const PERIOD_SEPARATOR = "\u001e";
