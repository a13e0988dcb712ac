import { sendsRandomRequests } from "./random-requests.js";

sendsRandomRequests({ SQLite: 120, PostgreSQL: 50 });
