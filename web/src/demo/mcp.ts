/** The demo's MCP servers. */
import type { AgentMcpServer, McpServer, McpTest } from "../api/types";
import { minutesAgo } from "./agents";

const tools = [
  { name: "find_tickets", description: "Find tickets by their words, their state or who they are given to." },
  { name: "show_ticket", description: "Show one ticket with its comments." },
  { name: "comment", description: "Comment on a ticket." },
];

export const mcpServers: McpServer[] = [
  { id: "mcp-1", name: "tickets", owner: "team", type: "http", url: "https://mcp.tickets.example.com/mcp", headers: ["X-Team"], signedIn: false, createdAt: minutesAgo(4000) },
  { id: "mcp-2", name: "errors", owner: "personal", type: "http", url: "https://errors.example.com/mcp", auth: { CLIENT_ID: "aloft", secret: true, scopes: ["read"] }, signedIn: true, createdAt: minutesAgo(90) },
  { id: "mcp-4", name: "calendar", owner: "personal", type: "http", url: "https://calendar.example.com/mcp", signedIn: false, signInOver: true, createdAt: minutesAgo(9000) },
  { id: "mcp-3", name: "design-files", owner: "personal", type: "stdio", command: "npx", args: ["-y", "@example/design-mcp", "--read-only"], env: ["DESIGN_TOKEN"], signedIn: false, createdAt: minutesAgo(20_000) },
];

export const mcpTest = (path: string): McpTest =>
  path.includes("mcp-1")
    ? { state: "needs_auth", tools: [], error: { code: "mcp_sign_in_needed", message: "the server requires a sign-in" }, tookMs: 212 }
    : { state: "ready", tools, tookMs: 341 };

export const agentMcpServers: AgentMcpServer[] = [
  { name: "tickets", source: "team", type: "http", url: "https://mcp.tickets.example.com/mcp", state: "needs_auth", why: "the server requires a sign-in" },
  { name: "errors", source: "user", type: "http", url: "https://errors.example.com/mcp", state: "ready", tools, signedIn: true },
  { name: "design-files", source: "project", type: "stdio", command: "npx", state: "left_out", why: "mcpServerAllowlist of environment.json has no entry for it" },
];
