import type { JSX } from "preact";
import { allShortcuts } from "../app/keys.js";
import { Dialog } from "../ui/dialog.js";

export default function Shortcuts({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="facts">
        {allShortcuts().map(({ key, about }) => (
          <>
            <dt>
              <kbd class="kbd">{key === " " ? "space" : key}</kbd>
            </dt>
            <dd>{about}</dd>
          </>
        ))}
        <dt>
          <kbd class="kbd">⌘K</kbd>
        </dt>
        <dd>Search or jump to a page</dd>
      </dl>
    </Dialog>
  );
}
