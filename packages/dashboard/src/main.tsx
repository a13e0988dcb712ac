import { render } from "preact";
import { startSession } from "./app/api.js";
import { startDensity } from "./app/density.js";
import { startLive } from "./app/live.js";
import { startNow } from "./app/now.js";
import { startRouter } from "./app/router.js";
import { startTheme } from "./app/theme.js";
import { Shell } from "./shell.js";
import "./styles/index.css";

startTheme();
startDensity();
startRouter();
startNow();
startLive();
void startSession();

const root = document.getElementById("app");
if (root !== null) render(<Shell />, root);
