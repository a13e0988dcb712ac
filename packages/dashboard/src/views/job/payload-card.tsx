import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { bytes } from "../../app/format.js";
import { Copy } from "../../ui/copy.js";
import { JsonTree, LongText } from "../../ui/json-tree.js";
import type { Payload } from "../../app/stored-text.js";

/** Raw text shown at first. */
const RAW_LENGTH = 20_000;

export function PayloadCard({ title, payload }: { title: string; payload: Payload }): JSX.Element {
  const [isRaw, setRaw] = useState(false);
  const { text, node } = payload;
  return (
    <section class="card">
      <div class="card-h lined">
        <h2>{title}</h2>
        <span class="meta">{bytes(new TextEncoder().encode(text).length)}</span>
        <span class="push row">
          <button type="button" class="btn ghost sm" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
            Raw
          </button>
          <Copy text={text} label={`Copy the ${title.toLowerCase()}`}>
            Copy
          </Copy>
        </span>
      </div>
      <div class="code-b" tabIndex={0} role="region" aria-label={title}>
        {isRaw ? (
          <pre class="raw">
            <LongText text={text} first={RAW_LENGTH}>
              {(shown) => <bdi>{shown}</bdi>}
            </LongText>
          </pre>
        ) : (
          <JsonTree node={node} />
        )}
      </div>
    </section>
  );
}
