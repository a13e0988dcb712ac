import type { JSX } from "preact";
import { Dialog } from "../ui/dialog.js";
import { SignIn } from "../ui/sign-in.js";

/** Signs in without leaving the page. */
export default function LoginAgain({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Sign in again" onClose={onClose}>
      <SignIn onDone={onClose} />
    </Dialog>
  );
}
