package dockerfile

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/control/image/registry"
	"aloft/internal/policy"
)

// What a build may reach: the networks of a [Job] and of a [Builder].
const (
	// Machine is the network of machines: Job.Policy judges, outside, all that the
	// engine and the steps reach but for the images of FROM.
	Machine = "machine"
	Host    = "host" // the server's own, with its loopback and its neighbours
	None    = "none"
)

// A Link is a network namespace whose only way out judges by a policy.
type Link interface {
	Namespace() string  // a path by which it can be entered
	Nameserver() string // the address that answers there
	SetPolicy(ctx context.Context, n policy.Network) error
	Close() error
}

// Links makes a link, which keeps what it needs in the folder dir, until it is
// closed or the folder is removed.
type Links func(ctx context.Context, dir string, n policy.Network) (Link, error)

// ResolvConf writes what programs on the link look names up by, and returns the
// command that runs others with it in the link's namespace. Without a link they
// have no network at all.
func ResolvConf(l Link, file string) (enter []string, err error) {
	nameserver, enter := "127.0.0.1", []string{"unshare", "--net", "--"}
	if l != nil {
		nameserver, enter = l.Nameserver(), []string{"nsenter", "--net=" + l.Namespace(), "--"}
	}
	// In a mount namespace of their own, that nobody else sees it.
	enter = append(enter, "unshare", "--mount", "--", "sh", "-c", `[ ! -e /etc/resolv.conf ] || mount --bind "$1" /etc/resolv.conf || exit 1; shift; exec "$@"`, "sh", file)
	return enter, os.WriteFile(file, []byte("nameserver "+nameserver+"\noptions edns0\n"), 0o644) // steps read it, as anybody
}

// network is what a build reaches, and why that is less than the operator has
// said, if it is.
func (b *Builder) network(spec Spec) (network string, n policy.Network, why string) {
	n = b.Policy
	if spec.Policy != nil {
		n = *spec.Policy
	}
	switch {
	case b.Network == None || n.Mode == "":
		return None, n, ""
	case b.Network == Host && n.Limits():
		return None, n, "the environment's network is limited, and the server's is not"
	case b.Network == Host:
		return Host, n, ""
	case !b.Engine.Confines():
		return None, n, "this engine cannot be given a machine's (images.build_network: host gives it the server's)"
	}
	return Machine, n, ""
}

// own fetches the image of a reference into a folder of a build, where it is of
// a registry that the operator has named, or of one on loopback.
func (b *Builder) own(ctx context.Context, ref, work string) (dir, digest string, err error) {
	client := registry.New(b.Registry)
	r, err := client.Parse(ref)
	if err != nil || !client.Known(r) {
		return "", "", nil //nolint:nilerr // what is wrong with it is the engine's to say
	}
	if dir, err = os.MkdirTemp(work, "base-"); err != nil {
		return "", "", err
	}
	digest, err = client.Save(ctx, r, dir)
	return dir, digest, err
}

var (
	// What is no reference of a registry's image is left to the engine.
	plainReference = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._/:@-]*$`)
	variable       = regexp.MustCompile(`\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})`)
)

// Bases returns the images that a Dockerfile begins with or copies from, as it
// writes them, as far as its text and its arguments say.
func Bases(text string, args map[string]string) []string {
	values, stages := map[string]string{}, []string{"scratch"}
	var out []string
	add := func(ref string) {
		ref = variable.ReplaceAllStringFunc(strings.Trim(ref, `"'`), func(v string) string {
			m := variable.FindStringSubmatch(v)
			if value := values[m[1]+m[2]]; value != "" {
				return value
			}
			return m[3]
		})
		_, err := strconv.Atoi(ref)
		stage := slices.ContainsFunc(stages, func(s string) bool { return strings.EqualFold(s, ref) })
		if err != nil && !stage && plainReference.MatchString(ref) && !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	begun := false
	for _, in := range instructions(text) {
		word, rest, _ := strings.Cut(squeeze(in.text), " ")
		flags, rest := cutFlags(rest)
		words := strings.Fields(rest)
		switch strings.ToUpper(word) {
		case "ARG":
			for _, w := range words {
				name, value, _ := strings.Cut(w, "=")
				if given, ok := args[name]; ok {
					value = given
				}
				if !begun {
					values[name] = strings.Trim(value, `"'`)
				}
			}
		case "FROM":
			begun = true
			if len(words) > 0 {
				add(words[0])
			}
			if len(words) == 3 && strings.EqualFold(words[1], "as") {
				stages = append(stages, words[2])
			}
		}
		for _, f := range flags {
			for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(f, "--mount="), "--"), ",") {
				if from, ok := strings.CutPrefix(part, "from="); ok {
					add(from)
				}
			}
		}
	}
	return out
}
