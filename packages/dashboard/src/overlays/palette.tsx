import type { JSX } from "preact";
import { Dialog } from "../ui/dialog.js";

export default function Palette({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Palette" onClose={onClose}>
      <p />
    </Dialog>
  );
}
