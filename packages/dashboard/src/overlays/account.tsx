import type { JSX } from "preact";
import { Dialog } from "../ui/dialog.js";

export default function Account({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Account" onClose={onClose}>
      <p />
    </Dialog>
  );
}
