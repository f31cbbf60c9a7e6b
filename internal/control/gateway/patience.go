package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// idleTimeout is how long a machine may be silent within a request, or leave a
// response untaken.
const idleTimeout = 2 * time.Minute

// patientReader reads a request's body as long as it keeps coming.
type patientReader struct {
	body io.Reader
	rc   *http.ResponseController
}

// newPatientReader bounds the first read too, and what the server itself reads
// of a body that nobody wanted.
func newPatientReader(w http.ResponseWriter, r *http.Request) *patientReader {
	p := &patientReader{r.Body, http.NewResponseController(w)}
	// An earlier request on the connection has left its own.
	_ = p.rc.SetWriteDeadline(time.Now().Add(idleTimeout))
	if r.Body != nil && r.Body != http.NoBody {
		p.deadline(time.Now().Add(idleTimeout))
	}
	return p
}

func (p *patientReader) Read(b []byte) (int, error) {
	p.deadline(time.Now().Add(idleTimeout))
	n, err := p.body.Read(b)
	if errors.Is(err, io.EOF) {
		// From here on the server watches the connection; that read has no end.
		p.deadline(time.Time{})
	}
	return n, err
}

// deadline sets when reading ends. A server that knows of no deadlines has its own.
func (p *patientReader) deadline(t time.Time) { _ = p.rc.SetReadDeadline(t) }

// patientWriter writes a response as long as it is taken, and at once.
type patientWriter struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	sent int64
}

func (p *patientWriter) Write(b []byte) (int, error) {
	_ = p.rc.SetWriteDeadline(time.Now().Add(idleTimeout))
	n, err := p.w.Write(b)
	p.sent += int64(n)
	if err == nil {
		err = p.rc.Flush()
	}
	return n, err
}

// ReadFrom copies in pieces as large as a pipe holds.
func (p *patientWriter) ReadFrom(r io.Reader) (int64, error) {
	start := p.sent
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := p.Write(buf[:n]); werr != nil {
				return p.sent - start, werr
			}
		}
		if errors.Is(err, io.EOF) {
			return p.sent - start, nil
		}
		if err != nil {
			return p.sent - start, err
		}
	}
}
