// Bench measures the cost of Aloft, compares each result with a baseline measured in the
// same run on the same machine, and prints a table. Times depend on the machine, so
// compare the ratios. It needs root and bin/aloft.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	work, ours, yardstick, against, aim string
}

// suite is a Go benchmark that measures both Aloft and the baseline.
type suite struct {
	pkg, name, times string
	rows             func(*figures) []row
}

var suites = []suite{
	{"./internal/control/machine/container", "FirstByte", "20x", func(f *figures) []row {
		ours, bare := f.of("FirstByte/create"), f.of("FirstByte/bare")
		plain := f.of("FirstByte/create-plain")
		return []row{
			{"machine created → first byte", ms(ours), ms(bare), times(ours, bare) + " a bare runc run", "≤ 2×"},
			{"the same", ms(ours), ms(plain), more(ours, plain) + " than without a user namespace", "≤ 5 ms more"},
		}
	}},
	{"./internal/control/machine/container", "Inside", "10x", func(f *figures) []row {
		compare := func(work, name string) row {
			ours, bare := f.of("Inside/"+name), f.of("Inside/"+name+"/ns/yardstick")
			return row{work, ms(ours), ms(bare), times(ours, bare) + " in a chroot on the host", ""}
		}
		return []row{compare("in a machine: docker run --rm", "docker"), compare("in a machine: apt-get install of a downloaded package", "apt")}
	}},
	{"./internal/control/machine/container", "Sleep", "5x", func(f *figures) []row {
		compare := func(work, name, than string) row {
			return row{work, ms(f.of("Sleep/live/" + name)), ms(f.of("Sleep/disk/" + name)), times(f.of("Sleep/live/"+name), f.of("Sleep/disk/"+name)) + " " + than, ""}
		}
		return []row{
			compare("gVisor, 64 MiB in use: to sleep, alive", "sleep", "on its disk"),
			compare("the same woken, until it answers", "wake", "from its disk"),
			compare("the same forked, until it answers", "fork", "from its disk"),
			{"freeze of a disk with 5,000 files", ms(f.of("Sleep/freeze")), ms(f.of("Sleep/copy")), times(f.of("Sleep/freeze"), f.of("Sleep/copy")) + " cp -a", ""},
		}
	}},
	{"./cmd/exec-daemon", "True$", "500x", func(f *figures) []row {
		bare := f.of("True/ForkExec")
		return []row{
			{"tool call: Shell `true`", ms(f.of("True/Shell")), ms(bare), more(f.of("True/Shell"), bare) + " than fork+exec", "≤ 1 ms more"},
			{"tool call: Shell `/bin/true`", ms(f.of("True/Shell/Process")), ms(bare), more(f.of("True/Shell/Process"), bare) + " than fork+exec", "≤ 1.5 ms more"},
			{"the same, 99 of 100 within", ms(f.of("True/Shell/Process/p99")), ms(f.of("True/ForkExec/p99")), more(f.of("True/Shell/Process/p99"), f.of("True/ForkExec/p99")) + " than fork+exec", ""},
			{"tool call over RPC: Write an empty file", ms(f.of("True/Write")), ms(bare), times(f.of("True/Write"), bare) + " fork+exec", ""},
			{"the same, 99 of 100 within", ms(f.of("True/Write/p99")), ms(f.of("True/ForkExec/p99")), times(f.of("True/Write/p99"), f.of("True/ForkExec/p99")) + " fork+exec", ""},
		}
	}},
	{"./cmd/exec-daemon", "AtOnce", "10x", func(f *figures) []row {
		ours, bare := f.of("AtOnce/Shell"), f.of("AtOnce/ForkExec")
		turn := f.of("AtOnce/InTurn")
		return []row{
			{"100 tool calls at once: Shell `/bin/true`", ms(ours), ms(turn), times(ours, turn) + " bash, one after another", ""},
			{"the same", ms(ours), ms(bare), times(ours, bare) + " 100 fork+exec at once", ""},
		}
	}},
	{"./cmd/exec-daemon", "Output", "3x", func(f *figures) []row {
		const size = 100e6
		pipe := f.of("Output/Pipe")
		return []row{
			{"Shell prints 100 MB", speed(size, f.of("Output/Shell")), speed(size, pipe), times(pipe, f.of("Output/Shell")) + " a pipe", ""},
			{"the same, looking for 200 secrets", speed(size, f.of("Output/Secrets")), speed(size, pipe), times(pipe, f.of("Output/Secrets")) + " a pipe", ""},
		}
	}},
	{"./cmd/exec-daemon", "Read", "20x", func(f *figures) []row {
		return []row{{"Read 100 lines in the middle of 50 MB", ms(f.of("Read/Read")), ms(f.of("Read/sed")), times(f.of("Read/Read"), f.of("Read/sed")) + " sed", ""}}
	}},
	{"./internal/redact", "Stream/(OneByIndex|200)", "50x", func(f *figures) []row {
		const code, hostile = 3000 * 97, 30000 * 7 // bytes per operation of the benchmark
		one := f.of("Stream/OneByIndex")
		return []row{
			{"redaction of source code, 200 secrets", speed(code, f.of("Stream/200/Code")), speed(code, one), times(one, f.of("Stream/200/Code")) + " looking for one value", ""},
			{"redaction of nearly secrets, 200 secrets", speed(hostile, f.of("Stream/200/Hostile")), "", "", ""},
		}
	}},
	{"./internal/guest/tool", "Search", "10x", func(f *figures) []row {
		return []row{
			{"Grep, 100,000 files, some hits", ms(f.of("Search/Grep-needle")), ms(f.of("Search/rg-needle")), times(f.of("Search/Grep-needle"), f.of("Search/rg-needle")) + " rg", "≤ 1.1×"},
			{"Grep, 100,000 files, no hit", ms(f.of("Search/Grep-none")), ms(f.of("Search/rg-none")), times(f.of("Search/Grep-none"), f.of("Search/rg-none")) + " rg", "≤ 1.1×"},
			{"Glob *.go, newest first", ms(f.of("Search/Glob-go")), ms(f.of("Search/rg-files-go-newest")), times(f.of("Search/Glob-go"), f.of("Search/rg-files-go-newest")) + " rg --sortr modified", "≤ 1.1×"},
			{"the same", ms(f.of("Search/Glob-go")), ms(f.of("Search/fd-go")), times(f.of("Search/Glob-go"), f.of("Search/fd-go")) + " fd --glob, not sorted", ""},
		}
	}},
	{"./internal/guest/rulefile", "Read", "20x", func(f *figures) []row {
		warm, cold := f.of("Read/warm"), f.of("Read/cold")
		return []row{
			{"200 rules and 100 skills of 100,000 files, read for a prompt", ms(warm), "", "", "≤ 50 ms"},
			{"the same, from disk", ms(cold), ms(warm), times(cold, warm) + " when in memory", "≤ 300 ms"},
		}
	}},
	{"./internal/guest/search", "^Benchmark(Index|Query)$/^(rg|Ours|ctags=none)$", "3x", func(f *figures) []row {
		index, words := f.of("Index/ctags=none"), f.of("Index/rg")
		query, lines := f.of("Query/Ours"), f.of("Query/rg")
		return []row{
			{"SemSearch: index of Go's source, from nothing", ms(index), ms(words), times(index, words) + " rg, every word", ""},
			{"the same, files a second", rate(index / f.of("Index/ctags=none/files")), rate(words / f.of("Index/ctags=none/files")), "", ""},
			{"SemSearch: a question of seven words", ms(query), ms(lines), times(query, lines) + " rg for three", ""},
		}
	}},
	{"./internal/guest/screen", "Screenshot", "20x", func(f *figures) []row {
		ours, theirs := f.of("Screenshot/Ours"), f.of("Screenshot/ffmpeg")
		return []row{{"screenshot, 1920×1200 → 1280×800 WebP", ms(ours), ms(theirs), times(ours, theirs) + " ffmpeg", "≤ 60 ms"}}
	}},
	{"./cmd/sandbox", "True", "1x", func(f *figures) []row {
		return []row{{"sandbox around `true`", ms(f.of("True/sandboxed")), ms(f.of("True/bare")), more(f.of("True/sandboxed"), f.of("True/bare")) + " than bare", "≤ 3 ms more"},
			{"the same", ms(f.of("True/sandboxed")), ms(f.of("True/bwrap")), times(f.of("True/sandboxed"), f.of("True/bwrap")) + " bubblewrap", "< 1×"},
			{"the same, where no protected name is there", ms(f.of("True/placeholders")), ms(f.of("True/bwrap")), times(f.of("True/placeholders"), f.of("True/bwrap")) + " bubblewrap", ""}}
	}},
	{"./cmd/sandbox", "Rules", "20x", func(f *figures) []row {
		few := f.of("Rules/10")
		return []row{
			{"sandbox with 1,000 paths", ms(f.of("Rules/1000")), ms(few), more(f.of("Rules/1000"), few) + " than with 10", ""},
			{"sandbox with 10,000 paths", ms(f.of("Rules/10000")), ms(few), more(f.of("Rules/10000"), few) + " than with 10", ""},
		}
	}},
	{"./internal/policy/shell", "Bash", "200x", func(f *figures) []row {
		return []row{{"judge a line of shell", ms(f.of("Bash/ours")), ms(f.of("Bash/bash")), times(f.of("Bash/ours"), f.of("Bash/bash")) + " `bash -n`", "< 1×"}}
	}},
	{"./internal/guest/sandbox/proxy", "Throughput", "20x", func(f *figures) []row {
		const size = 64 << 20 // per operation of the benchmark
		ours, bare := f.of("Throughput/proxy"), f.of("Throughput/direct")
		return []row{{"download through the sandbox's proxy", speed(size, ours), speed(size, bare), times(ours, bare) + " plain loopback", ""}}
	}},
	{"./internal/control/store/sqlite", "Append/agents=(1|100)$", "5000x", func(f *figures) []row {
		of := func(work, name string) row {
			return row{work, rate(f.of(name)), rate(f.of(name + "/ns/yardstick")), times(f.of(name+"/ns/yardstick"), f.of(name)) + " a plain INSERT loop", "≥ 5,000/s"}
		}
		return []row{of("event append, 1 agent", "Append/agents=1"), of("event append, 100 agents", "Append/agents=100")}
	}},
	{"./internal/control/machine/container", "Snapshot", "20x", func(f *figures) []row {
		full, empty := f.of("Snapshot/50000-files"), f.of("Snapshot/empty")
		freeze, copied := f.of("Snapshot/50000-files/ns/freeze"), f.of("Snapshot/50000-files/ns/copy")
		one, many := f.of("Snapshot/50000-files/bytes/one"), f.of("Snapshot/50000-files/bytes/many")
		return []row{
			{"start from a snapshot of 50,000 files, 1 GiB", ms(full), ms(empty), times(full, empty) + " a start from an empty one", "≤ 1.2×"},
			{"freeze of the same", ms(freeze), ms(copied), times(freeze, copied) + " cp -a and sync", ""},
			{"disk of 20 machines of the same", mib(int64(many)), mib(int64(one)), times(many, one) + " one", ""},
		}
	}},
	{"./internal/control/image/unpack", "Unpack", "5x", func(f *figures) []row {
		ours, tar := f.of("Unpack/Jail"), f.of("Unpack/Tar")
		return []row{{"image layer of 5,000 files unpacked and proven", ms(ours), ms(tar), times(ours, tar) + " tar -xpz", ""}}
	}},
	{"./internal/control/gateway", "Clone", "3x", func(f *figures) []row {
		return []row{
			{"clone of 5,000 files, warm mirror", ms(f.of("Clone/Gateway")), ms(f.of("Clone/Plain")), times(f.of("Clone/Gateway"), f.of("Clone/Plain")) + " git clone", ""},
			{"the same, without checkout", ms(f.of("Clone/GatewayNoCheckout")), ms(f.of("Clone/PlainNoCheckout")), times(f.of("Clone/GatewayNoCheckout"), f.of("Clone/PlainNoCheckout")) + " git clone", ""},
		}
	}},
	{"./internal/control/machine/container", "Network", "3s", func(f *figures) []row {
		const size = 256 << 20 // per operation of the benchmark
		through := func(work, name string) []row {
			ours, bare := f.of("Network/"+name), f.of("Network/"+name+"/ns/yardstick")
			cpu, bareCPU := f.of("Network/"+name+"/cpu-ns/op"), f.of("Network/"+name+"/cpu-ns/yardstick")
			return []row{
				{work, speed(size, ours), speed(size, bare), times(bare, ours) + " plain loopback", "≥ 0.5×"},
				{"the same, processors' time for 256 MiB", ms(cpu), ms(bareCPU), times(cpu, bareCPU) + " plain loopback", ""},
			}
		}
		ours, bare := f.of("Network/connect"), f.of("Network/connect/ns/yardstick")
		each, bareEach := f.of("Network/rate"), f.of("Network/rate/ns/yardstick")
		return slices.Concat(through("out of a machine: download", "down"), through("out of a machine: upload", "up"), []row{
			{"out of a machine: connect, one byte, close", ms(ours), ms(bare), more(ours, bare) + " than plain loopback", "≤ 0.4 ms more"},
			{"the same, 16 at once", rate(each), rate(bareEach), times(bareEach, each) + " plain loopback", ""},
		})
	}},
}

// whole lists measurements of whole programs, by name.
var whole = []struct {
	name string
	run  func() ([]row, error)
}{{"exec-daemon", execDaemon}, {"product", product}, {"turns", turns}, {"environments", environments}, {"dashboard", dashboard}}

func main() {
	only := flag.String("only", "", "measure only what has a name that matches this regular expression: PACKAGE NAME of a benchmark, exec-daemon, product, turns, environments or dashboard")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: -only:", err)
		os.Exit(2)
	}
	var rows []row
	failed := false
	for _, s := range suites {
		if !chosen.MatchString(s.pkg + " " + s.name) {
			continue
		}
		f, err := s.run()
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			failed = true
			continue
		}
		rows = append(rows, s.rows(f)...)
		if len(f.missing) > 0 {
			fmt.Fprintf(os.Stderr, "bench: %s %s did not report %s\n", s.pkg, s.name, strings.Join(f.missing, ", "))
			failed = true
		}
	}
	for _, w := range whole {
		if !chosen.MatchString(w.name) {
			continue
		}
		more, err := w.run()
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			failed = true
		}
		rows = append(rows, more...)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "work\tours\tyardstick\tcompared\taim")
	for _, r := range rows {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", r.work, r.ours, r.yardstick, r.against, r.aim)
	}
	if out.Flush() != nil || failed {
		os.Exit(1)
	}
}

// figures are the results of a suite.
type figures struct {
	// values maps the name of a benchmark to nanoseconds. Keys ending in /p99 are the 99th
	// percentile; keys ending in /files are the number of files. The keys of a benchmark
	// that measures its own baseline end in the metric's unit.
	values  map[string]float64
	missing []string // names that were requested but not reported
}

// of returns the value with the given name. If there is none, it returns 0 and
// records the name as missing.
func (f *figures) of(name string) float64 {
	v, ok := f.values[name]
	if !ok && !slices.Contains(f.missing, name) {
		f.missing = append(f.missing, name)
	}
	return v
}

var line = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op(.*)$`)
var p99 = regexp.MustCompile(`([\d.]+) µs/p99`)
var both = regexp.MustCompile(`([\d.]+) (ns/yardstick|cpu-ns/yardstick|cpu-ns/op|ns/freeze|ns/copy|bytes/one|bytes/many)`)
var files = regexp.MustCompile(`([\d.]+) files/s`)
var reported = regexp.MustCompile(`([\d.]+) (µs|ns|ms)/median`)

// run runs the suite, and returns the median of repeated results.
func (s suite) run() (*figures, error) {
	fmt.Fprintf(os.Stderr, "measuring %s %s\n", s.pkg, s.name)
	cmd := exec.Command("go", "test", s.pkg, "-run", "^$", "-bench", s.name, "-benchtime", s.times, "-timeout", "20m")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", s.pkg, err, text)
	}
	f := map[string]float64{}
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		if d := reported.FindStringSubmatch(m[3]); d != nil {
			value, err = strconv.ParseFloat(d[1], 64)
			if err != nil {
				return nil, err
			}
			value *= map[string]float64{"ns": 1, "µs": 1e3, "ms": 1e6}[d[2]]
		}
		f[m[1]] = value
		if d := p99.FindStringSubmatch(m[3]); d != nil {
			us, err := strconv.ParseFloat(d[1], 64)
			if err != nil {
				return nil, err
			}
			f[m[1]+"/p99"] = us * 1e3
		}
		for _, d := range both.FindAllStringSubmatch(m[3], -1) {
			if f[m[1]+"/"+d[2]], err = strconv.ParseFloat(d[1], 64); err != nil {
				return nil, err
			}
		}
		if d := files.FindStringSubmatch(m[3]); d != nil {
			each, err := strconv.ParseFloat(d[1], 64)
			if err != nil {
				return nil, err
			}
			f[m[1]+"/files"] = each * value / 1e9
		}
	}
	return &figures{values: f}, nil
}

func ms(ns float64) string { return fmt.Sprintf("%.2f ms", ns/1e6) }

// speed formats a transfer rate, given size in bytes and time in ns.
func speed(size, ns float64) string { return fmt.Sprintf("%.0f MB/s", size*1e3/ns) }

func rate(ns float64) string {
	if ns == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f/s", 1e9/ns)
}

func times(a, b float64) string {
	if b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f×", a/b)
}

func more(a, b float64) string { return fmt.Sprintf("%+.2f ms", (a-b)/1e6) }
