import { conforms } from "./conforming.js";

conforms("DynamoDB with four shards", 4);
