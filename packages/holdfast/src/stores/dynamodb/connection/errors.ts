import { HoldfastError, StoreUnavailableError, StoreUnreadableError } from "../../../errors.js";

const UNKNOWN: ReadonlySet<string> = new Set([
  "UnrecognizedClientException",
  "InvalidSignatureException",
  "IncompleteSignatureException",
  "MissingAuthenticationTokenException",
  "InvalidClientTokenId",
  "OptInRequired",
]);
const EXPIRED: ReadonlySet<string> = new Set(["ExpiredTokenException", "ExpiredToken", "RequestExpired"]);
const THROTTLED: ReadonlySet<string> = new Set([
  "ProvisionedThroughputExceededException",
  "ThrottlingException",
  "ThrottlingError",
  "Throttling",
  "ThrottledException",
  "TooManyRequestsException",
  "ProvisionedThroughputExceeded",
  "RequestLimitExceeded",
]);
const PASSING: ReadonlySet<string> = new Set([
  "InternalServerError",
  "InternalServerErrorException",
  "ServiceUnavailable",
  "ServiceUnavailableException",
  "TransactionInProgressException",
  "TransactionConflictException",
  "TransactionConflict",
  "RequestTimeout",
  "RequestTimeoutException",
  "TimeoutError",
  "AbortError",
]);

// The request has not reached anybody.
const UNREACHED: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);
const CONFLICTS: ReadonlySet<string> = new Set(["TransactionConflictException", "TransactionConflict"]);

interface SdkError extends Error {
  $metadata?: { httpStatusCode?: number; clockSkewCorrected?: boolean };
  $response?: unknown;
  code?: string;
}

/** DynamoDB has no room for it now: it is asked again, later and later. */
export function isThrottled(error: unknown): boolean {
  return THROTTLED.has((error as Error).name);
}

/** It may do at another try: nobody answered, or somebody else was at the same item. */
export function isPassing(error: unknown): boolean {
  const { name, $metadata } = error as SdkError;
  if (isThrottled(error) || PASSING.has(name)) return true;
  // The machine's clock is off: by now the SDK knows by how much, and signs the next request with the right time.
  if ($metadata?.clockSkewCorrected === true) return true;
  // An answer that was cut off has a status too. What fails before anything was sent, for want of credentials say, is
  // told by name.
  return isConnection(error) || ($metadata?.httpStatusCode ?? 0) >= 500;
}

function isConnection(error: unknown): boolean {
  const { code } = error as SdkError;
  return typeof code === "string" && /^(?:E[A-Z]+|EAI_\w+|UND_ERR\w*)$/.test(code);
}

/** Nobody is there to be asked. */
export function isUnreached(error: unknown): boolean {
  return UNREACHED.has((error as SdkError).code ?? "");
}

/** It was not answered, and may have been done all the same. */
export function mayBeDone(error: unknown): boolean {
  return isPassing(error) && !isThrottled(error) && !isUnreached(error) && !CONFLICTS.has((error as Error).name);
}

/** An item that DynamoDB will not take, whatever is tried: it is too large, or holds what it has no form for. */
export function isItemsFault(error: unknown): boolean {
  return (
    (error as Error).name === "ValidationException" ||
    (error as Error).name === "ItemCollectionSizeLimitExceededException"
  );
}

export function isMissingTable(error: unknown): boolean {
  return (error as Error).name === "ResourceNotFoundException";
}

/** An error of the SDK or of DynamoDB as Holdfast tells it. `where` names table and region. */
export function fault(error: unknown, where: string): Error {
  if (error instanceof HoldfastError) return error;
  // The whole exchange, socket and all, hangs on it: a log would be full of that.
  if (error instanceof Error && "$response" in error) Object.defineProperty(error, "$response", { enumerable: false });
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  if (isMissingTable(error)) {
    return new StoreUnreadableError(
      `there is no ${where}; check its name and region. A new client creates it (or store.migrate())`,
      error,
    );
  }
  if (name === "AccessDeniedException") {
    return new StoreUnreadableError(
      `these AWS credentials may not use ${where}: ${message}. Give them what dynamodb(…).iamPolicy() prints`,
      error,
    );
  }
  if (EXPIRED.has(name)) {
    return new StoreUnreadableError(
      `the AWS credentials for ${where} have expired: ${sentence(message)} Renew them`,
      error,
    );
  }
  if (UNKNOWN.has(name)) {
    return new StoreUnreadableError(
      `AWS does not know the credentials given for ${where}: ${sentence(message)} Check the access key, its secret and the region`,
      error,
    );
  }
  if (name === "CredentialsProviderError") {
    return new StoreUnreadableError(
      `no AWS credentials were found for ${where}: ${message}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role`,
      error,
    );
  }
  if (message.startsWith("Region is missing")) {
    return new StoreUnreadableError(
      `no AWS region is set for ${where}: give it as region, in the URL or in AWS_REGION`,
      error,
    );
  }
  if (isThrottled(error)) {
    return new StoreUnavailableError(`${where} is asked for more than its capacity: ${message}`, error);
  }
  if (isUnreached(error)) {
    return new StoreUnavailableError(`${where} cannot be reached: ${message}. Check its region and endpoint`, error);
  }
  if (isPassing(error))
    return new StoreUnavailableError(`${where} did not answer: ${message === "" ? name : message}`, error);
  // What it says of what it was given, it will say again. Anything else (credentials that could not be renewed, a key of
  // KMS that is away) may be over soon, and no job must end for it.
  if (isItemsFault(error)) {
    return new HoldfastError("STORE_ERROR", `${where} refused a call: ${message}`, { cause: error });
  }
  return new StoreUnavailableError(`${where} failed a call: ${message === "" ? name : message}`, error);
}

function sentence(message: string): string {
  return /[.!?]$/.test(message) ? message : `${message}.`;
}
