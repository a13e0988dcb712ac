import { describe, expect, it } from "vitest";
import { computed, effect, signal, untracked } from "../../src/app/signals.js";

describe("signals", () => {
  it("run an effect again when what it read changes", () => {
    const [name, count, unread] = [signal("a"), signal(1), signal(0)];
    const seen: string[] = [];
    const stop = effect(() => void seen.push(`${name.value}${count.value}${unread.peek()}`));
    name.value = "b";
    count.value = 2;
    count.value = 2;
    unread.value = 9;
    stop();
    count.value = 3;
    expect(seen).toEqual(["a10", "b10", "b20"]);
  });

  it("run an effect once, and only if a computed value changed", () => {
    const count = signal(1);
    const isEven = computed(() => count.value % 2 === 0);
    const both = computed(() => `${count.value} ${isEven.value}`);
    const even: boolean[] = [];
    const texts: string[] = [];
    effect(() => void even.push(isEven.value));
    effect(() => void texts.push(`${both.value} ${isEven.value}`));
    count.value = 3;
    count.value = 4;
    expect(even).toEqual([false, true]);
    expect(texts).toEqual(["1 false false", "3 false false", "4 true true"]);
  });

  it("forget what is no longer read", () => {
    const [isOn, text] = [signal(true), signal("a")];
    const seen: (string | null)[] = [];
    effect(() => void seen.push(isOn.value ? text.value : null));
    isOn.value = false;
    text.value = "b";
    isOn.value = true;
    text.value = "c";
    expect(seen).toEqual(["a", null, "b", "c"]);
  });

  it("compute only what is read, and only after a change", () => {
    const count = signal(1);
    let runs = 0;
    const double = computed(() => {
      runs++;
      return count.value * 2;
    });
    count.value = 2;
    expect(runs).toBe(0);
    expect([double.value, double.value, runs]).toEqual([4, 4, 1]);
    const stop = effect(() => void double.value);
    count.value = 3;
    expect([double.peek(), runs]).toEqual([6, 2]);
    stop();
    // A value without readers is computed when it is read.
    count.value = 4;
    expect(runs).toBe(2);
    expect([double.value, runs]).toEqual([8, 3]);
  });

  it("call what an effect returned before it runs again, and at its end", () => {
    const count = signal(1);
    const seen: string[] = [];
    const stop = effect(() => {
      const { value } = count;
      seen.push(`begin ${value}`);
      return () => void seen.push(`end ${value} ${count.value}`);
    });
    count.value = 2;
    stop();
    count.value = 3;
    expect(seen).toEqual(["begin 1", "end 1 2", "begin 2", "end 2 2"]);
  });

  it("may be written by an effect, and by one that it starts", () => {
    const [count, double, inner] = [signal(1), signal(0), signal(0)];
    const seen: number[] = [];
    effect(() => void seen.push(double.value));
    effect(() => {
      double.value = count.value * 2;
      return effect(() => void (inner.value = untracked(() => count.value)));
    });
    count.value = 5;
    expect(seen).toEqual([0, 2, 10]);
    expect(inner.value).toBe(5);
  });
});
