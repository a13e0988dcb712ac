import type { StreamShard } from "../../connection/streams.js";
import { shardName, type Place } from "./stream-cursor.js";

/** The listed shards of a stream. Each shard has at most one parent, whose records come before. */
export class Shards {
  readonly #byName = new Map<string, StreamShard>();
  readonly #byId = new Map<string, StreamShard>();
  readonly #children = new Map<string, StreamShard[]>();
  /** New records are added to the stream. */
  readonly isEnabled: boolean;

  constructor({ isEnabled, shards }: { isEnabled: boolean; shards: readonly StreamShard[] }) {
    this.isEnabled = isEnabled;
    for (const shard of shards) {
      this.#byName.set(shardName(shard.id), shard);
      this.#byId.set(shard.id, shard);
      if (shard.parent !== null) this.#children.set(shard.parent, [...this.childrenOf(shard.parent), shard]);
    }
  }

  named(name: string): StreamShard | undefined {
    return this.#byName.get(name);
  }

  childrenOf(id: string): readonly StreamShard[] {
    return this.#children.get(id) ?? [];
  }

  /** Shards that no other shard continues: the open ones, and closed ones whose children are not listed yet. */
  leaves(): StreamShard[] {
    return [...this.#byId.values()].filter(({ id }) => this.childrenOf(id).length === 0);
  }

  /**
   * Adds the shards that a position does not cover: a child that was listed later than its sibling. They are read from their
   * beginning, so nothing is missed. Null: a shard of the position is not listed.
   */
  complete(places: ReadonlyMap<string, Place>): Map<StreamShard, Place> | null {
    const found = new Map<StreamShard, Place>();
    const covered = new Set<string>();
    for (const [name, place] of places) {
      const shard = this.named(name);
      if (shard === undefined) return null;
      found.set(shard, place);
      this.#addDescendants(shard.id, covered);
    }
    for (const leaf of this.leaves()) {
      if (!covered.has(leaf.id)) found.set(this.#oldestUncovered(leaf, covered), { after: "start" });
    }
    return found;
  }

  #addDescendants(id: string, to: Set<string>): void {
    to.add(id);
    for (const child of this.childrenOf(id)) this.#addDescendants(child.id, to);
  }

  /** The first shard of the leaf's line after those that were read completely. */
  #oldestUncovered(leaf: StreamShard, covered: ReadonlySet<string>): StreamShard {
    for (let shard = leaf; ;) {
      const parent = shard.parent === null ? undefined : this.#byId.get(shard.parent);
      if (parent === undefined || this.#hasDescendantIn(parent.id, covered)) return shard;
      shard = parent;
    }
  }

  #hasDescendantIn(id: string, covered: ReadonlySet<string>): boolean {
    return this.childrenOf(id).some((child) => covered.has(child.id) || this.#hasDescendantIn(child.id, covered));
  }
}
