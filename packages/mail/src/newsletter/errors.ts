import { HoldfastError } from "holdfast";
import type { SendRunStatus } from "./records.js";

/** There is no newsletter with this id. */
export class NewsletterNotFoundError extends HoldfastError {
  readonly id: string;
  constructor(id: string) {
    super("NEWSLETTER_NOT_FOUND", `newsletter ${id} not found`);
    this.id = id;
  }
}

/** A newsletter that is being sent, or was sent, cannot be changed. */
export class NewsletterSentError extends HoldfastError {
  readonly id: string;
  constructor(id: string) {
    super("NEWSLETTER_SENT", `newsletter ${id} was sent or is being sent; create a new one with the changes`);
    this.id = id;
  }
}

/** There is no send run with this id. */
export class SendRunNotFoundError extends HoldfastError {
  readonly id: string;
  constructor(id: string) {
    super("SEND_RUN_NOT_FOUND", `send run ${id} not found`);
    this.id = id;
  }
}

/** A send run can be moved or cancelled only while it is `scheduled`. `status` is its current one. */
export class SendRunNotScheduledError extends HoldfastError {
  readonly id: string;
  readonly status: SendRunStatus;
  constructor(id: string, status: SendRunStatus) {
    const advice = status === "sending" ? "; to hold back its mails, pause their queue" : "";
    super("SEND_RUN_NOT_SCHEDULED", `send run ${id} is ${status}, and only a scheduled one can be changed${advice}`);
    this.id = id;
    this.status = status;
  }
}
