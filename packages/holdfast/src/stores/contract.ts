/** For authors of stores: the store contract with its types, and functions that all stores share. */
export type * from "../store.js";
export { attemptsUsed, countClaim, EXPIRED_ERROR, settledBefore, STALE_ERROR } from "../job/state.js";
export type { ErrorRecord } from "../job/error-record.js";
export type { ClaimCount, FinishedState, State } from "../job/state.js";
export { NEVER, OVERLAP, slotResult } from "../schedule/slots.js";
export { auditCursor, auditWindow } from "../access/audit-order.js";
export type { AuditPosition, AuditWindow } from "../access/audit-order.js";
export { TOKEN_ROLES } from "../access/roles.js";
export type { TokenRole } from "../access/roles.js";
export { LIMITS } from "../defaults.js";
export { systemClock } from "../clock.js";
export type { Clock, Timer } from "../clock.js";
