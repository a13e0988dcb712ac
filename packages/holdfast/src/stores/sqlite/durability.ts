/** In a separate file, so that users of the store need no types of the driver. */
export type Durability = "full" | "normal";
