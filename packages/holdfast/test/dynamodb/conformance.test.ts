import { conforms } from "./conforming.js";

conforms("DynamoDB with one shard", 1);
