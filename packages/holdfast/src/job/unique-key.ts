/**
 * Stands between user and key in a stored unique key, so that nobody can hold, or replace, what another user has. Names
 * hold no control characters, so this cannot be part of a user's name or of a key.
 */
export const OF_USER = "\u001f";

/** Stands between a key and the calendar period it is for, so that each period has a key of its own. */
export const IN_PERIOD = "\u001e";
