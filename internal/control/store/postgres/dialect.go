package postgres

import (
	"context"
	"database/sql/driver"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"aloft/internal/control/store"
)

// sumUsage is the one query that PostgreSQL has to word in its own way.
//
//go:embed sum_usage.sql
var sumUsage string

// connector makes connections that take the queries of package table, and whose
// errors are the store's.
type connector struct{ driver.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	plain, ok := made.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a connection is a %T", made), made.Close())
	}
	return &conn{plain}, nil
}

type conn struct{ *stdlib.Conn }

func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	s, err := c.Conn.PrepareContext(ctx, worded(text))
	return s, storeError(err)
}

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.Conn.ExecContext(ctx, worded(text), clean(args))
	return r, storeError(err)
}

func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	alone := c.Conn.Conn().PgConn().TxStatus() == 'I'
	r, err := c.Conn.QueryContext(ctx, worded(text), clean(args))
	switch {
	case err == nil:
		return rows{r}, nil
	case alone && ctx.Err() == nil:
		return nil, c.stale(err)
	}
	return nil, storeError(err)
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, o)
	if err != nil {
		return nil, c.stale(err)
	}
	return tx, nil
}

// stale has a connection that turns out to have ended replaced, where nothing
// was asked on it yet, or a question that changes nothing.
func (c *conn) stale(err error) error {
	if err = storeError(err); errors.Is(err, store.ErrUnreachable) && c.Conn.Conn().IsClosed() {
		return driver.ErrBadConn
	}
	return err
}

type rows struct{ driver.Rows }

func (r rows) Next(dest []driver.Value) error {
	switch err := r.Rows.Next(dest); {
	case err == io.EOF: //nolint:errorlint // the interface has it bare
		return err
	case err != nil:
		return storeError(err)
	}
	for i, v := range dest {
		if s, ok := v.(string); ok {
			dest[i] = unescaped(s)
		}
	}
	return nil
}

var (
	wordings  sync.Map // of each text that was asked for
	parameter = regexp.MustCompile(`\?([0-9]+)`)
)

// worded returns how PostgreSQL says it. The queries have question marks in
// front of parameters and nowhere else.
func worded(text string) string {
	if known, ok := wordings.Load(text); ok {
		return known.(string)
	}
	own := parameter.ReplaceAllString(text, "$$$1")
	if strings.HasPrefix(text, "-- name: SumUsage ") {
		own = sumUsage
	}
	wordings.Store(text, own)
	return own
}

// escape begins what stands for a byte that PostgreSQL's text cannot have, or for
// itself: two hexadecimal digits follow. SQLite keeps any bytes, and what comes
// out of a machine may be any.
const escape = '\x1a'

// clean makes of the arguments what PostgreSQL can keep. No bytes are some that
// are empty.
func clean(args []driver.NamedValue) []driver.NamedValue {
	for i, a := range args {
		switch v := a.Value.(type) {
		case string:
			args[i].Value = escaped(v)
		case []string:
			all := make([]string, len(v))
			for i, s := range v {
				all[i] = escaped(s)
			}
			args[i].Value = all
		case []byte:
			if v == nil {
				args[i].Value = []byte{}
			}
		}
	}
	return args
}

func escaped(s string) string {
	if utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\x1a") {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, n := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == escape || r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, "%c%02x", escape, s[i])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unescaped is the inverse of escaped.
func unescaped(s string) string {
	if strings.IndexByte(s, escape) < 0 {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, string(escape))
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n := min(2, len(after))
		c, _ := strconv.ParseUint(after[:n], 16, 8) // as escaped has written it
		b.WriteByte(byte(c))
		s = after[n:]
	}
}

// The classes and codes of PostgreSQL's errors that mean something to us.
const (
	uniqueViolation     = "23505"
	foreignKeyViolation = "23503"
	serialization       = "40001"
	deadlock            = "40P01"
	readOnly            = "25006" // a standby, or one that has become one
	diskFull            = "53100"
	ioError             = "58030"
	queryCanceled       = "57014" // by statement_timeout
	lockNotAvailable    = "55P03" // by lock_timeout
	connectionClass     = "08"
	resourceClass       = "53"  // of these, too many connections
	interventionClass   = "57P" // it is shut down, starts, or was dropped
	idleTooLong         = "25P03"
)

// storeError says what an error of the database means to those who use the store.
func storeError(err error) error {
	switch {
	case err == nil, errors.Is(err, driver.ErrBadConn), errors.Is(err, store.ErrUnreachable), errors.Is(err, store.ErrFull):
		return err
	case outOfReach(err):
		return fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == readOnly || e.Code == diskFull || e.Code == ioError) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}

func outOfReach(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case diskFull:
			return false
		case queryCanceled, lockNotAvailable, idleTooLong:
			return true
		}
		return strings.HasPrefix(e.Code, connectionClass) || strings.HasPrefix(e.Code, resourceClass) || strings.HasPrefix(e.Code, interventionClass)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if pgconn.SafeToRetry(err) { // it was never sent
		return true
	}
	_, network := errors.AsType[net.Error](err)
	return network && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// refused turns PostgreSQL's words for what it refuses into the store's.
func refused(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case uniqueViolation:
			return store.ErrExists
		case foreignKeyViolation:
			return fmt.Errorf("what it belongs to: %w", store.ErrNotFound)
		}
	}
	return err
}
