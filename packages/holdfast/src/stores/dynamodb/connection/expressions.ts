import { attributeOf, type Attribute, type Item } from "./attributes.js";

export interface ExpressionInput {
  ExpressionAttributeNames?: Record<string, string>;
  ExpressionAttributeValues?: Item;
}

/**
 * Collects the values of an expression. Attribute names are always written `#name`, because DynamoDB reserves several
 * hundred words.
 */
export class Expression {
  readonly #values: Item = {};
  #count = 0;

  /** Adds a value and returns its placeholder. */
  value(value: Attribute | string | number | boolean): string {
    const placeholder = `:${this.#count++}`;
    this.#values[placeholder] = attributeOf(value);
    return placeholder;
  }

  /** Only the names and values that these expressions use: DynamoDB rejects unused ones. */
  inputFor(...expressions: readonly (string | undefined)[]): ExpressionInput {
    const found = (pattern: RegExp): string[] => expressions.flatMap((each) => each?.match(pattern) ?? []);
    const names = found(/#\w+/g).map((name) => [name, name.slice(1)] as const);
    const values = found(/:\d+/g).map((placeholder) => [placeholder, this.#values[placeholder] as Attribute] as const);
    return {
      ...(names.length > 0 && { ExpressionAttributeNames: Object.fromEntries(names) }),
      ...(values.length > 0 && { ExpressionAttributeValues: Object.fromEntries(values) }),
    };
  }
}

/** An item's update expression and its conditions. */
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

  /** Sets an attribute to the value of an expression, such as `#fence + :0`. */
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

  /** A condition: the attribute has one of these values. */
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

  /** Only the conditions, for a put, a delete or a check. */
  get conditionInput(): ExpressionInput & { ConditionExpression?: string } {
    const condition = this.#condition;
    return { ...(condition !== undefined && { ConditionExpression: condition }), ...this.inputFor(condition) };
  }

  get #condition(): string | undefined {
    return this.#conditions.length === 0 ? undefined : this.#conditions.map((each) => `(${each})`).join(" AND ");
  }
}
