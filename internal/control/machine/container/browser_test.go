package container

import (
	"encoding/base64"
	"os/exec"
	"strings"
	"testing"

	"aloft/internal/control/machine"
	"aloft/internal/need"
	"aloft/internal/policy"
)

// browserScript starts Chromium in the ways that projects do, always with
// Chromium's own sandbox, and prints the page. Puppeteer enables the sandbox by
// default, Playwright only on request.
const browserScript = `set -e
mkdir -p /tmp/js; cd /tmp/js; echo '{"type": "module"}' > package.json
npm install --registry "$0" --no-audit --no-fund playwright-core@1.65.0 puppeteer-core@24.43.1 >npm.log 2>&1 || cat npm.log
cat > browsers.js <<'END'
import { chromium } from 'playwright-core'
import puppeteer from 'puppeteer-core'
const executablePath = '/usr/bin/chromium'
for (const [name, launch] of [
  ['playwright', () => chromium.launch({ executablePath, chromiumSandbox: true })],
  ['puppeteer', () => puppeteer.launch({ executablePath })],
]) {
  const browser = await launch()
  const page = await browser.newPage()
  await page.goto('data:text/html,<title>shown</title>')
  console.log(name, await page.title())
  await page.goto('chrome://sandbox')
  const text = await page.evaluate(() => document.body.innerText)
  console.log(name, /You are adequately sandboxed/.test(text) ? 'sandboxed' : text)
  await browser.close()
}
END
node browsers.js
chromium --headless --disable-gpu --dump-dom 'data:text/html,<p>shell</p>' 2>/dev/null
`

// TestBrowsers runs Chromium with its own sandbox, as the agent's user.
func TestBrowsers(t *testing.T) {
	for _, name := range []string{"chromium", "npm", "node"} {
		need.Command(t, name)
	}
	registry, err := exec.Command("npm", "config", "get", "registry").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			m := create(t, newRuntime(t, t.TempDir(), path), machine.Spec{Image: "host", Network: policy.Network{Mode: policy.AllowAll}})
			script := base64.StdEncoding.EncodeToString([]byte(browserScript))
			got := ask(t, m, "sh", "-c", asUser+`bash -c "$(echo $0 | base64 -d)" "$1" 2>&1`, script, strings.TrimSpace(string(registry)))
			for _, want := range []string{"playwright shown\n", "puppeteer shown\n", "playwright sandboxed\n", "puppeteer sandboxed\n", "<p>shell</p>"} {
				if !strings.Contains(got.Output, want) {
					t.Errorf("%q is missing in: %s", want, got.Output)
				}
			}
		})
	}
}
