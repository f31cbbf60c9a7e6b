package gateway

import (
	"net/http"
	"strings"
)

// verdict is the result for one ref of a push.
type verdict struct {
	ref    string
	reason string // reason of a refusal; "" on success
}

// report answers a push in the format that the client requested. The user's git
// shows each line of words with the prefix "remote:".
func (q *request) report(p pushRequest, verdicts []verdict, words string) {
	q.w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	q.w.WriteHeader(http.StatusOK)
	out := &patientWriter{w: q.w, rc: q.rc}
	_, _ = out.Write(encodeReport(p, verdicts, words)) // ignore errors: the client has disconnected
}

func encodeReport(p pushRequest, verdicts []verdict, words string) []byte {
	status := appendPkt(nil, "unpack ok\n")
	for _, v := range verdicts {
		if v.reason == "" {
			status = appendPkt(status, "ok "+v.ref+"\n")
			continue
		}
		status = appendPkt(status, "ng "+v.ref+" "+v.reason+"\n")
	}
	status = append(status, flushPkt...)
	if !p.has("report-status") {
		status = nil
	}
	limit := 0
	switch {
	case p.has("side-band-64k"):
		limit = maxPkt - 1
	case p.has("side-band"):
		limit = 995
	default:
		return status
	}
	var out []byte
	band := func(n byte, data string) {
		for len(data) > 0 {
			piece := data[:min(len(data), limit)]
			out = appendPkt(out, string(n)+piece)
			data = data[len(piece):]
		}
	}
	for line := range strings.SplitSeq(words, "\n") {
		if words != "" {
			band(2, line+"\n")
		}
	}
	band(1, string(status))
	return append(out, flushPkt...)
}
