import { attributeOf, type Attribute, type Item } from "./attributes.js";

export interface ExpressionInput {
  ExpressionAttributeNames?: Record<string, string>;
  ExpressionAttributeValues?: Item;
}

/**
 * Text with places for values. Names of attributes are written `#name`: half of all words are reserved, so none is
 * written plainly.
 */
export class Expression {
  readonly #values: Item = {};
  #count = 0;

  /** The place of a value. */
  value(value: Attribute | string | number | boolean): string {
    const place = `:${this.#count++}`;
    this.#values[place] = attributeOf(value);
    return place;
  }

  /** What a request says besides these texts: DynamoDB refuses a value that none of them uses. */
  inputFor(...texts: readonly (string | undefined)[]): ExpressionInput {
    const found = (form: RegExp): string[] => texts.flatMap((each) => each?.match(form) ?? []);
    const names = found(/#\w+/g).map((name) => [name, name.slice(1)] as const);
    const values = found(/:\d+/g).map((place) => [place, this.#values[place] as Attribute] as const);
    return {
      ...(names.length > 0 && { ExpressionAttributeNames: Object.fromEntries(names) }),
      ...(values.length > 0 && { ExpressionAttributeValues: Object.fromEntries(values) }),
    };
  }
}

/** A change of one item, with its conditions. */
export class Change extends Expression {
  readonly #sets: string[] = [];
  readonly #removes: string[] = [];
  readonly #conditions: string[] = [];

  /** Null removes the attribute. */
  set(fields: Record<string, Attribute | string | number | boolean | null>): this {
    for (const [name, value] of Object.entries(fields)) {
      if (value === null) this.#removes.push(`#${name}`);
      else this.#sets.push(`#${name} = ${this.value(value)}`);
    }
    return this;
  }

  /** Sets by an expression of DynamoDB's own. */
  setTo(name: string, expression: string): this {
    this.#sets.push(`#${name} = ${expression}`);
    return this;
  }

  remove(...names: readonly string[]): this {
    this.#removes.push(...names.map((name) => `#${name}`));
    return this;
  }

  when(...conditions: readonly string[]): this {
    this.#conditions.push(...conditions);
    return this;
  }

  /** One of several values. */
  isIn(name: string, values: readonly string[]): string {
    return `#${name} IN (${values.map((each) => this.value(each)).join(", ")})`;
  }

  get updateInput(): ExpressionInput & { UpdateExpression: string; ConditionExpression?: string } {
    const parts = [
      ...(this.#sets.length > 0 ? [`SET ${this.#sets.join(", ")}`] : []),
      ...(this.#removes.length > 0 ? [`REMOVE ${this.#removes.join(", ")}`] : []),
    ];
    const update = parts.join(" ");
    const condition = this.#condition;
    return {
      UpdateExpression: update,
      ...(condition !== undefined && { ConditionExpression: condition }),
      ...this.inputFor(update, condition),
    };
  }

  /** The conditions alone, for a put, a delete or a check. */
  get conditionInput(): ExpressionInput & { ConditionExpression?: string } {
    const condition = this.#condition;
    return { ...(condition !== undefined && { ConditionExpression: condition }), ...this.inputFor(condition) };
  }

  get #condition(): string | undefined {
    return this.#conditions.length === 0 ? undefined : this.#conditions.map((each) => `(${each})`).join(" AND ");
  }
}
