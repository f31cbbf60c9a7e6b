package dockerfile

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A Base is an image that a build starts or copies from.
type Base struct {
	Ref    string // full name: docker.io/library/debian:12
	As     string // the image's name in the Dockerfile that the engine gets
	Dir    string // OCI layout of the image; "" if the engine fetches it itself
	Digest string // digest of its manifest: sha256:…
	line   int    // first line of the Dockerfile that names the image
}

// refuse returns the failure for a Dockerfile that is not passed to any engine.
func refuse(line int, step, why string) *Failure {
	return &Failure{Line: line, Step: step, Why: why, Refused: true}
}

// A gate rewrites a repository's Dockerfile for the engine: each instruction on
// one line, each image by its full name, each mount with all its options. It
// refuses what it cannot parse unambiguously, so that no engine can interpret a
// Dockerfile differently.
type gate struct {
	args       map[string]string                          // values given for ARG
	repository string                                     // owner of the build, for separate caches
	reference  func(ref string) (full string, err error)  // returns the full name of a registry image
	source     func(path string) (real string, err error) // resolves symbolic links in a path of the context
	documents  bool                                       // the engine supports here-documents
	aliases    bool                                       // the server provides the images, under names that the engine can look up
}

// passed is a Dockerfile that passed the gate.
type passed struct {
	text  string // every instruction is on its original line, except after here-documents
	bases []Base
	line  int // the line being read
}

// stages are the stages of a Dockerfile read so far.
type stages struct {
	count  int
	names  []string          // in lower case
	values map[string]string // values of ARG before the first FROM
}

// pass checks and rewrites a Dockerfile.
func (g gate) pass(text string) (passed, error) {
	var out passed
	for name := range g.args {
		if strings.HasPrefix(strings.ToUpper(name), "BUILDKIT_") {
			return out, refuse(0, "ARG "+name, "built-in arguments of BuildKit cannot be set")
		}
	}
	all, err := instructions(text)
	if err != nil {
		return out, err
	}
	lines := make([]string, strings.Count(text, "\n")+1)
	seen := stages{values: platform()}
	for _, in := range all {
		if len(in.documents) > 0 && !g.documents {
			return out, refuse(in.line, squeeze(in.text), "this server's engine does not support here-documents: write the lines as RUN a && b, or COPY a file")
		}
		out.line = in.line
		line, err := g.instruction(in.text, &seen, &out)
		if err != nil {
			return out, refuse(in.line, squeeze(in.text), err.Error())
		}
		at := in.line
		if len(in.documents) > 0 {
			at = in.end
			copy(lines[at:], in.documents)
		}
		lines[at-1] = line
	}
	if seen.count == 0 {
		return out, refuse(0, "", "it has no FROM")
	}
	out.text = strings.Join(lines, "\n")
	return out, nil
}

// platform returns the predefined platform arguments for FROM.
func platform() map[string]string {
	v := map[string]string{}
	for _, of := range []string{"TARGET", "BUILD"} {
		v[of+"OS"], v[of+"ARCH"], v[of+"VARIANT"], v[of+"PLATFORM"] = "linux", runtime.GOARCH, "", "linux/"+runtime.GOARCH
	}
	return v
}

// instruction returns one instruction in the form for the engine.
func (g gate) instruction(text string, seen *stages, out *passed) (string, error) {
	in := instruction{text: text}
	word, rest := in.name(), in.arguments()
	switch word {
	case "FROM", "RUN", "COPY", "ADD":
	case "ARG":
		if seen.count == 0 {
			g.argument(rest, seen)
		}
		return word + " " + rest, nil
	case "ONBUILD":
		return g.checkOnbuild(rest)
	default:
		if word != "MAINTAINER" && word != "ARG" && seen.count == 0 {
			return "", errors.New("there is no FROM before it")
		}
		return word + " " + rest, nil
	}
	flags, rest, err := cutFlags(rest)
	if err != nil {
		return "", err
	}
	if word == "FROM" {
		return g.checkFrom(flags, rest, seen, out)
	}
	if seen.count == 0 {
		return "", errors.New("there is no FROM before it")
	}
	words := []string{word}
	var names []string
	for _, f := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(f, "--"), "=")
		if !slices.Contains(flagsOf[word], name) {
			return "", fmt.Errorf("the flag --%s is not supported", name)
		}
		if slices.Contains(names, name) && name != "mount" && name != "exclude" {
			return "", fmt.Errorf("duplicate flag --%s", name)
		}
		names = append(names, name)
		switch {
		case name == "from":
			if value, err = g.image(value, seen, out); err != nil {
				return "", err
			}
			f = "--from=" + value
		case name == "mount":
			if value, err = g.mount(value, seen, out); err != nil {
				return "", err
			}
			f = "--mount=" + value
		case name == "network" && value != "none" && value != "default":
			return "", fmt.Errorf("--network is none or default: a step reaches what the environment may, and not %q", value)
		case name == "security":
			if value != "sandbox" {
				return "", fmt.Errorf("--security=%s is not allowed", value)
			}
			continue
		}
		words = append(words, f)
	}
	return strings.Join(append(words, rest), " "), nil
}

// flagsOf lists the allowed flags by instruction.
var flagsOf = map[string][]string{
	"RUN":  {"mount", "network", "security"},
	"COPY": {"from", "chown", "chmod", "link", "parents", "exclude"},
	"ADD":  {"chown", "chmod", "link", "checksum", "keep-git-dir", "exclude", "unpack"},
}

var stageName = regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`)

// checkFrom handles FROM, which starts a stage.
func (g gate) checkFrom(flags []string, rest string, seen *stages, out *passed) (string, error) {
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		value, err := expand(value, seen.values)
		if name != "--platform" || err != nil || value != "linux/"+runtime.GOARCH && value != "linux" {
			return "", fmt.Errorf("%s is not this server's platform, which is linux/%s", f, runtime.GOARCH)
		}
	}
	words := strings.Fields(rest)
	if len(words) != 1 && (len(words) != 3 || !strings.EqualFold(words[1], "as")) {
		return "", errors.New("write FROM image, or FROM image AS name")
	}
	text, err := expand(unquote(words[0]), seen.values)
	if err != nil {
		return "", err
	}
	ref := text
	if text != "scratch" && !slices.Contains(seen.names, strings.ToLower(text)) {
		if ref, err = g.base(text, out); err != nil {
			return "", err
		}
	}
	line := "FROM " + ref
	if len(words) == 3 {
		name := strings.ToLower(words[2])
		if !stageName.MatchString(name) || name == "scratch" || name == "context" || slices.Contains(seen.names, name) {
			return "", fmt.Errorf("invalid stage name %q: begin with a letter, use letters, digits and . _ -, and do not repeat a name", words[2])
		}
		seen.names = append(seen.names, name)
		line += " AS " + name
	} else {
		seen.names = append(seen.names, "")
	}
	seen.count++
	return line, nil
}

// image resolves the value of --from or from=: an earlier stage, by name or
// number, or an image in a registry.
func (g gate) image(text string, seen *stages, out *passed) (string, error) {
	text = unquote(text)
	if n, err := strconv.Atoi(text); err == nil {
		if n < 0 || n >= seen.count-1 || text != strconv.Itoa(n) {
			return "", fmt.Errorf("there is no stage %s before this one", text)
		}
		return text, nil
	}
	if name := strings.ToLower(text); name != "" && slices.Contains(seen.names, name) {
		return name, nil
	}
	return g.base(text, out)
}

var (
	plainReference = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9_.-]*(?::\d+)?(?:/[A-Za-z0-9_.-]+)*(?::[A-Za-z0-9_.-]+)?(?:@sha256:[0-9a-f]{64})?$`)
	hexOnly        = regexp.MustCompile(`^[0-9a-f]+$`)
	// The transports of containers/image that do not refer to a registry.
	transport = regexp.MustCompile(`^(?i:containers-storage|dir|docker|docker-archive|docker-daemon|oci|oci-archive|oci-layout|docker-image|ostree|sif|tarball|local|rootfs|atomic|sha256):`)
)

// base returns the full name of a registry image and records it.
func (g gate) base(text string, out *passed) (string, error) {
	switch {
	case text == "":
		return "", errors.New("it names no image")
	case strings.Contains(text, "$"):
		return "", fmt.Errorf("%s cannot be resolved before the build: name the image itself", text)
	case transport.MatchString(text):
		return "", fmt.Errorf("%s is not an image in a registry, and other bases are not supported", text)
	case hexOnly.MatchString(text):
		return "", fmt.Errorf("%s may be the id of an image that somebody else has built: name an image in a registry, with its tag", text)
	}
	if !plainReference.MatchString(text) {
		return "", fmt.Errorf("%q is not an image in a registry", text)
	}
	full, err := g.reference(text)
	if err != nil {
		return "", fmt.Errorf("%q is not an image in a registry: %w", text, err)
	}
	as := full
	if at := strings.Index(full, "@sha256:"); at >= 0 && g.aliases {
		as = full[:at] + ":at-" + full[at+len("@sha256:"):][:24]
	}
	if !slices.ContainsFunc(out.bases, func(b Base) bool { return b.Ref == full }) {
		out.bases = append(out.bases, Base{Ref: full, As: as, line: out.line})
	}
	return as, nil
}

// checkOnbuild checks an ONBUILD instruction, which runs when another build is based
// on the image. It must not name images.
func (g gate) checkOnbuild(rest string) (string, error) {
	in := instruction{text: rest}
	switch word := in.name(); {
	case !known[word] || word == "FROM" || word == "ONBUILD" || word == "MAINTAINER":
		return "", errors.New("this instruction is not allowed in ONBUILD")
	case word == "ARG":
		return "ONBUILD " + rest, nil
	}
	var images passed
	line, err := g.instruction(rest, &stages{count: 1, names: []string{""}}, &images)
	if err == nil && len(images.bases) > 0 {
		err = errors.New("ONBUILD must not name an image")
	}
	return "ONBUILD " + line, err
}

// trigger checks an ONBUILD instruction of a base image. The engine runs it
// unchanged.
func (g gate) trigger(text string) error {
	if strings.ContainsAny(text, "\n\r\\") || strings.Contains(text, "<<") {
		return errors.New("it has more than one line")
	}
	line, err := g.checkOnbuild(text)
	if err == nil && squeeze(line) != "ONBUILD "+squeeze(text) {
		err = errors.New("it mounts or names something that is only known during the build")
	}
	return err
}

// argument records the defaults of ARG before the first FROM.
func (g gate) argument(rest string, seen *stages) {
	words, ok := shellWords(rest)
	if !ok {
		return
	}
	for _, w := range words {
		name, value, has := strings.Cut(w, "=")
		if given, ok := g.args[name]; ok {
			seen.values[name] = given
			continue
		}
		if !has {
			continue // given arguments and platform arguments take precedence
		}
		delete(seen.values, name)
		plain := unquote(value)
		if strings.ContainsAny(plain, `"'\`) || strings.HasPrefix(value, "'") && strings.Contains(value, "$") {
			continue // the value cannot be used in FROM
		}
		if value, err := expand(plain, seen.values); err == nil {
			seen.values[name] = value
		}
	}
}

// maxExpanded is the maximum size in bytes of an expanded text. Names of images are
// shorter.
const maxExpanded = 4096

var variable = regexp.MustCompile(`\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?-)([A-Za-z0-9._/:@-]*))?\})`)

// expand substitutes $NAME, ${NAME}, ${NAME:-default} and ${NAME-default}, and
// refuses every other use of $.
func expand(text string, values map[string]string) (string, error) {
	why, size := "", len(text)
	out := variable.ReplaceAllStringFunc(text, func(v string) string {
		m := variable.FindStringSubmatch(v)
		value, set := values[m[1]+m[2]]
		if size += len(value); size > maxExpanded {
			return "" // a few lines of ARG B=$A$A would double the value forty times
		}
		switch {
		case set && (value != "" || m[3] != ":-"):
			return value
		case m[3] != "":
			return m[4]
		}
		why = v
		return ""
	})
	if size > maxExpanded {
		return "", fmt.Errorf("the values in %.80q are longer than %d bytes", text, maxExpanded)
	}
	if why != "" {
		return "", fmt.Errorf("%s has no value before the build: give it one by ARG before the first FROM", why)
	}
	if strings.ContainsAny(out, "$\\\"'`{} \t") {
		return "", fmt.Errorf("%s cannot be resolved before the build: write the value itself, ${NAME} or ${NAME:-default}", text)
	}
	return out, nil
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] && !strings.ContainsAny(s[1:len(s)-1], `"'\`) {
		return s[1 : len(s)-1]
	}
	return s
}

// cutFlags splits the flags of an instruction from the rest, and removes their
// quotes.
func cutFlags(s string) (flags []string, rest string, err error) {
	for strings.HasPrefix(s, "--") {
		end, quote := len(s), byte(0)
	scan:
		for i := range len(s) {
			switch c := s[i]; {
			case c == '\\':
				return nil, "", errors.New("a flag contains a backslash")
			case quote != 0 && c == quote:
				quote = 0
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case quote == 0 && (c == ' ' || c == '\t'):
				end = i
				break scan
			}
		}
		flag := s[:end]
		plain := strings.NewReplacer(`"`, "", `'`, "").Replace(flag)
		if quote != 0 || plain == "--" || len(plain) != len(flag) && strings.ContainsAny(plain, " \t") {
			return nil, "", fmt.Errorf("the flag %s has unbalanced quotes or quoted spaces", flag)
		}
		flags, s = append(flags, plain), strings.TrimLeft(s[end:], " \t")
	}
	return flags, s, nil
}
