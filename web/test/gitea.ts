import { execFile, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request, type Server as HTTP } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const built = join(import.meta.dirname, "../../.bin/gitea");

/** A real Gitea, built by hack/build-gitea.sh, with the users ada and bot. bot's token has the scopes that the guide requires. */
export class Gitea {
  readonly dir = mkdtempSync(join(tmpdir(), "aloft-gitea-"));
  private readonly socket = join(this.dir, "s");
  private readonly config = join(this.dir, "app.ini");
  private front?: HTTP;
  private child?: ChildProcess;
  private log = "";
  url = "";
  ada = "";
  bot = "";

  static async start(): Promise<Gitea> {
    if (!existsSync(join(built, "gitea"))) throw new Error(".bin/gitea is not there: run hack/build-gitea.sh");
    const g = new Gitea();
    await g.listen();
    g.configure();
    g.run("migrate");
    g.ada = g.user("ada", "all");
    g.bot = g.user("bot", "write:repository,write:issue");
    const child = spawn(join(built, "gitea"), ["--config", g.config, "web"], { env: g.env(), stdio: ["ignore", "pipe", "pipe"] });
    g.child = child;
    for (const out of [child.stdout, child.stderr]) out.on("data", (d: Buffer) => (g.log = (g.log + d.toString()).slice(-8_000)));
    while (!(await fetch(`${g.url}/api/v1/version`).then((r) => r.ok, () => false))) {
      if (child.exitCode !== null) throw new Error(`Gitea does not start:\n${g.log}`);
      await new Promise((r) => setTimeout(r, 50));
    }
    return g;
  }

  /** Sends a request to the API as a user, and throws unless it succeeds. */
  async api(token: string, method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const r = await fetch(`${this.url}/api/v1${path}`, {
      method, headers: { Authorization: `token ${token}`, "Content-Type": "application/json" }, ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await r.text();
    if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${text}`);
    return (text ? JSON.parse(text) : {}) as Record<string, unknown>;
  }

  /** Creates a private repository of ada's from a bare repository, and returns its address. bot may write to it. */
  async repository(name: string, from: string): Promise<string> {
    await this.api(this.ada, "POST", "/user/repos", { name, private: true, default_branch: "main" });
    await this.api(this.ada, "PUT", `/repos/ada/${name}/collaborators/bot`, { permission: "write" });
    // Must not block: git talks to a server in this process.
    await promisify(execFile)("git", ["-C", from, "push", "-q", this.url.replace("//", `//ada:${this.ada}@`) + `/ada/${name}.git`, "main"]);
    return `${this.url}/ada/${name}`;
  }

  async close(): Promise<void> {
    const child = this.child;
    if (child && child.exitCode === null) {
      const gone = new Promise((r) => child.once("exit", r));
      child.kill("SIGINT");
      await gone;
    }
    this.front?.closeAllConnections();
    this.front?.close();
    rmSync(this.dir, { recursive: true });
  }

  /** Gitea listens on a unix socket, so that the test needs no free port. */
  private async listen(): Promise<void> {
    const front = createServer((from, to) => {
      const on = request({ socketPath: this.socket, path: from.url, method: from.method, headers: from.headers }, (r) => {
        to.writeHead(r.statusCode ?? 502, r.headers);
        r.pipe(to);
      });
      on.on("error", () => to.destroy());
      from.pipe(on);
    });
    this.front = front;
    await new Promise<void>((r) => front.listen(0, "127.0.0.1", r));
    this.url = `http://localhost:${(front.address() as AddressInfo).port}`;
  }

  private configure(): void {
    writeFileSync(this.config, `APP_NAME = test
RUN_MODE = prod
RUN_USER = ${userInfo().username}
WORK_PATH = ${this.dir}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
PROTOCOL = http+unix
HTTP_ADDR = ${this.socket}
ROOT_URL = ${this.url}/
LOCAL_ROOT_URL = ${this.url}/
STATIC_ROOT_PATH = ${built}
OFFLINE_MODE = true
DISABLE_SSH = true
[database]
DB_TYPE = sqlite3
PATH = ${this.dir}/gitea.db
SQLITE_JOURNAL_MODE = WAL
[security]
INSTALL_LOCK = true
SECRET_KEY = only-a-test
PASSWORD_HASH_ALGO = pbkdf2_v2
[repository]
ROOT = ${this.dir}/repos
[log]
MODE = console
LEVEL = warn
[mailer]
ENABLED = false
`);
  }

  private env = () => ({ ...process.env, HOME: this.dir, GITEA_WORK_DIR: this.dir });

  private run(...args: string[]): string {
    const done = spawnSync(join(built, "gitea"), ["--config", this.config, ...args], { encoding: "utf8", env: this.env() });
    if (done.status !== 0) throw new Error(`gitea ${args.join(" ")}: ${done.stdout}${done.stderr}`);
    return done.stdout;
  }

  private user(name: string, scopes: string): string {
    const said = this.run("admin", "user", "create", "--username", name, "--email", `${name}@example.com`, "--password", `${name}-has-a-password`, "--must-change-password=false", "--access-token", "--access-token-scopes", scopes);
    const token = /successfully created\.\.\. (\S+)/.exec(said)?.[1];
    if (!token) throw new Error(`no token for ${name}:\n${said}`);
    return token;
  }
}
