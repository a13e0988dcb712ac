export { passwordReset } from "./password-reset.js";
export type { PasswordReset, PasswordResetOptions, ResetMessage, ResetUser, ResetUsers } from "./password-reset.js";
export type { ResetRequestOptions, ResetRequestResult } from "./request.js";
export type { ResetRecords, ResetRequest, ResetToken } from "./records.js";
