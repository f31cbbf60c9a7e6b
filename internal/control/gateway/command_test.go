package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"aloft/internal/control/mirror"
	"aloft/internal/control/repourl"
)

func FuzzReadPkt(f *testing.F) {
	for _, s := range []string{"0000", "0004", "0005x", "fff0", "0003", "FFFF", "00", "-001"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		line, err := readPkt(bufio.NewReader(bytes.NewReader(in)))
		if err != nil || line == nil {
			return
		}
		if got := appendPkt(nil, line); !bytes.EqualFold(got[:4], in[:4]) || !bytes.Equal(got[4:], in[4:len(got)]) {
			t.Fatalf("%q read, %q written", in, got)
		}
	})
}

func FuzzReadPushRequest(f *testing.F) {
	zero, one := strings.Repeat("0", 40), strings.Repeat("1", 40)
	pkt := func(s string) string { return string(appendPkt(nil, s)) }
	for _, s := range []string{
		"0000",
		pkt(zero+" "+one+" refs/heads/a\x00report-status side-band-64k\n") + "0000PACK",
		pkt("shallow "+one) + pkt(zero+" "+one+" refs/heads/a\x00") + pkt(one+" "+zero+" refs/heads/b") + "0000",
		pkt("push-cert\x00x") + "0000",
		pkt(zero+" "+one+" refs/heads/a") + "0000",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := readPushRequest(bufio.NewReader(bytes.NewReader(in)), 40)
		if err != nil {
			return
		}
		var verdicts []verdict
		for _, c := range p.Commands {
			if !mirror.ValidRef(c.Ref) || strings.ContainsAny(c.Ref, " \n\x00") || len(c.Old) != 40 || len(c.New) != 40 {
				t.Fatalf("%q gives %+v", in, c)
			}
			verdicts = append(verdicts, verdict{c.Ref, "no"})
		}
		r := bufio.NewReader(bytes.NewReader(encodeReport(p, verdicts, "one\ntwo")))
		for { // the response must consist of whole pkt-lines
			if _, err := readPkt(r); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("%q is answered with a broken line: %v", in, err)
			}
		}
	})
}

func TestReportIsSplit(t *testing.T) {
	p := pushRequest{Capabilities: []string{"report-status", "side-band-64k"}}
	r := bufio.NewReader(bytes.NewReader(encodeReport(p, []verdict{{"refs/heads/a", ""}}, strings.Repeat("x", 200_000))))
	var words, status strings.Builder
	for {
		line, err := readPkt(r)
		if err != nil {
			t.Fatal(err)
		}
		if line == nil {
			break
		}
		switch line[0] {
		case 1:
			status.Write(line[1:])
		case 2:
			words.Write(line[1:])
		}
	}
	if words.Len() != 200_001 || status.String() != "000eunpack ok\n0014ok refs/heads/a\n0000" {
		t.Errorf("%d bytes of words, status %q", words.Len(), status.String())
	}
}

func FuzzReadLFSRequest(f *testing.F) {
	for _, seed := range []string{
		`{"operation":"download","transfers":["basic"],"objects":[{"oid":"` + strings.Repeat("a", 64) + `","size":1}],"hash_algo":"sha256"}`,
		`{"operation":"upload","objects":[{"oid":"../x","size":-1}]}`, `[]`, `{"operation":"download","objects":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		req, err := readLFSRequest(bytes.NewReader(in))
		if err != nil {
			return
		}
		for _, o := range req.Objects {
			if len(o.OID) != 64 || strings.Trim(o.OID, "0123456789abcdef") != "" || o.Size < 0 {
				t.Fatalf("took %+v", o)
			}
		}
	})
}

func FuzzModules(f *testing.F) {
	f.Add("[submodule \"a\"]\n\tpath = a\n\turl = ../a.git\n")
	f.Add("url=./../../../../x\n[submodule \"b\"] url = \"git@h:o/b\"\r\n")
	base, err := repourl.Parse("https://h/o/r.git")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range modules(base, []byte(text)) {
			if again, err := repourl.Parse(r.String()); err != nil || again.Key() != r.Key() {
				t.Fatalf("%q is read again as %q, %v", r, again, err)
			}
		}
	})
}
