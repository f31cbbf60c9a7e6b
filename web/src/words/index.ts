import { agent } from "./agent";
import { agents } from "./agents";
import { automations } from "./automations";
import { changes } from "./changes";
import { connections } from "./connections";
import { environments } from "./environments";
import { machine } from "./machine";
import { mcp } from "./mcp";
import { rules } from "./rules";
import { models } from "./models";
import { people } from "./people";
import { pulls } from "./pulls";
import { settings } from "./settings";
import { shell } from "./shell";

/** All texts of the dashboard, in one file per screen; this file exports them. */
export const words = { ...shell, ...people, ...agents, ...agent, ...automations, ...changes, ...connections, ...pulls, ...machine, ...environments, ...settings, ...mcp, ...models, ...rules } as const;
