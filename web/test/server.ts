import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const aloft = join(import.meta.dirname, "../../bin/aloft");

/** Chooses a port that the server can use again after a kill. It is below 32768, so the kernel does not assign it to others. */
const anyPort = () => 20_000 + Math.floor(Math.random() * 12_000);

/** A real server with machines, the scripted model and its own repository. */
export class Server {
  readonly dir = mkdtempSync(join(tmpdir(), "aloft-browser-"));
  readonly repo = join(this.dir, "slug.git");
  private child?: ChildProcess;
  private port = anyPort();
  url = "";
  link = "";

  /** The server's output at its start. */
  said = "";

  /** Starts a server. script, unless empty, is the model's script, and git contains additional lines for the git section of the configuration. */
  static async start(script = "", git = ""): Promise<Server> {
    if (!existsSync(aloft)) throw new Error("bin/aloft is not there: run make build");
    const s = new Server();
    s.makeRepo();
    writeFileSync(join(s.dir, "script.yaml"), script);
    const model = script ? `models: [{id: scripted, provider: scripted, script: ${join(s.dir, "script.yaml")}}]\n` : "";
    writeFileSync(join(s.dir, "aloft.yaml"), `git:\n  allow_file: [${JSON.stringify(s.dir)}]\n${git}${model}`);
    await s.first();
    return s;
  }

  /** Starts the server on a free port. */
  private async first(): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.up();
      } catch (e) {
        if (tries === 5 || !String(e).includes("address already in use")) throw e;
        this.port = anyPort();
      }
    }
  }

  /** Starts the server, and waits until it listens. */
  async up(): Promise<void> {
    const child = spawn(aloft, ["serve", "--config", join(this.dir, "aloft.yaml"), "--data", join(this.dir, "data"), "--listen", `127.0.0.1:${this.port}`], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    let said = "";
    let log = "";
    child.stdout.on("data", (d: Buffer) => (said += d.toString()));
    child.stderr.on("data", (d: Buffer) => (log = (log + d.toString()).slice(-8_000)));
    for (;;) {
      if (child.exitCode !== null) throw new Error(`the server does not start:\n${log}`);
      this.url = `http://localhost:${this.port}`;
      if (said.includes(` listens at http://127.0.0.1:${this.port}\n`) && (await fetch(`${this.url}/healthz`).then((r) => r.ok, () => false))) break;
      await new Promise((r) => setTimeout(r, 20));
    }
    // The link is printed before the server accepts requests.
    this.said = said;
    this.link = /^Sign in at (\S+)$/m.exec(said)?.[1] ?? "";
  }

  /** Kills the server with SIGKILL. */
  async kill(): Promise<void> {
    const child = this.child;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((r) => child.once("exit", r));
    child.kill("SIGKILL");
    await gone;
  }

  /** Writes an empty file into an agent's workspace, and returns the reply's status. */
  async write(agent: string, path: string): Promise<number> {
    const reply = await fetch(`${this.url}/v1/agents/${agent}/files/contents?path=${path}`, { method: "PUT", headers: { Authorization: `Bearer ${this.key()}` }, body: "" });
    return reply.status;
  }

  key(): string {
    return readFileSync(join(this.dir, "data", "admin.key"), "utf8").trim();
  }

  /** Removes everything: first the machines, which outlive a killed server. */
  async close(): Promise<void> {
    const api = async (method: string, path: string) => (await fetch(this.url + path, { method, headers: { Authorization: `Bearer ${this.key()}` } })).json();
    const { items } = (await api("GET", "/v1/agents")) as { items: { id: string }[] };
    for (const { id } of items) await api("DELETE", `/v1/agents/${id}`);
    const child = this.child;
    if (child) {
      const gone = new Promise((r) => child.once("exit", r));
      child.kill("SIGTERM");
      await gone;
    }
    rmSync(this.dir, { recursive: true });
  }

  /** The sample project of the demonstration, as a bare repository. */
  private makeRepo(): void {
    const work = join(this.dir, "slug");
    const run = (...args: string[]) => {
      const done = spawnSync(args[0] ?? "", args.slice(1), { encoding: "utf8" });
      if (done.status !== 0) throw new Error(`${args.join(" ")}: ${done.stderr}`);
    };
    run("cp", "-r", join(import.meta.dirname, "../../internal/cli/host/demo/sample"), work);
    run("git", "init", "-q", "-b", "main", work);
    run("git", "-C", work, "add", "-A");
    run("git", "-C", work, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "-m", "Make slugs of titles");
    run("git", "clone", "-q", "--bare", work, this.repo);
  }
}
