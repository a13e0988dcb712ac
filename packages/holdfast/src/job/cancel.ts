import { brand, HoldfastError } from "../errors.js";

/** Thrown by a handler to end its job as cancelled, with a reason: nothing is left to do, and a retry would not help. */
export class Cancel extends HoldfastError {
  static {
    brand(this, "Cancel");
  }
  constructor(reason: string, options?: { cause?: unknown }) {
    super("CANCELLED", reason, options);
  }
}
