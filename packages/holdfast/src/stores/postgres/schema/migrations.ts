import { API_NAMES } from "./api-names.js";
import { CHECKED_FUNCTIONS, FUNCTIONS, FUNCTIONS_AGAIN, FUNCTIONS_FOR_MANY_KEYS } from "./functions.js";
import { FINGERPRINT_INDEXES, FOLLOWING, TRANSITION_ROWS } from "./following.js";
import { JOB_SETTINGS, PURGE_INDEX } from "./job-settings.js";
import { LANE_MARKS } from "./lane-marks.js";
import { OPERATIONS } from "./operations.js";
import { CURSOR_KEY, TABLES, type Migration } from "./schema.js";
import { STEPS } from "./steps.js";

/** Numbered from 1. Only append: workers of the previous version may be running. */
export const MIGRATIONS: readonly Migration[] = [
  TABLES,
  FUNCTIONS,
  FUNCTIONS_AGAIN,
  LANE_MARKS,
  CURSOR_KEY,
  CHECKED_FUNCTIONS,
  API_NAMES,
  JOB_SETTINGS,
  PURGE_INDEX,
  FOLLOWING,
  FINGERPRINT_INDEXES,
  OPERATIONS,
  TRANSITION_ROWS,
  FUNCTIONS_FOR_MANY_KEYS,
  STEPS,
];
