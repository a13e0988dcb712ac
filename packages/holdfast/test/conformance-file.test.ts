import { describe, it } from "vitest";
import { exerciseStore } from "#src/testing/exercise-store/index.js";
import { ON_FILE } from "./sqlite-file.js";

exerciseStore({ describe, it }, { name: "SQLite on a file", ...ON_FILE });
