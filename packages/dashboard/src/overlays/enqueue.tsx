import type { JSX } from "preact";
import { Dialog } from "../ui/dialog.js";

export default function Enqueue({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Enqueue" onClose={onClose}>
      <p />
    </Dialog>
  );
}
