/** In a file of its own: whoever uses the store needs no types of its driver. */
export type Durability = "full" | "normal";
