package execd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"aloft/internal/wire/conformancev1"
	"aloft/internal/wire/conformancev1/conformancev1connect"
)

// conformance is the service that the suite calls. Each request describes the
// response to send, and the response describes the request.
type conformance struct {
	conformancev1connect.UnimplementedConformanceServiceHandler
}

type headed interface {
	Header() http.Header
	Trailer() http.Header
}

func (conformance) Unary(ctx context.Context, req *connect.Request[conformancev1.UnaryRequest]) (*connect.Response[conformancev1.UnaryResponse], error) {
	said, err := requestInfo(ctx, req.Header(), req.Peer().Query, req.Msg)
	if err != nil {
		return nil, err
	}
	payload, err := answer(ctx, said, req.Msg.GetResponseDefinition())
	if err != nil {
		return nil, err
	}
	res := connect.NewResponse(&conformancev1.UnaryResponse{Payload: payload})
	dress(res, req.Msg.GetResponseDefinition())
	return res, nil
}

func (conformance) IdempotentUnary(ctx context.Context, req *connect.Request[conformancev1.IdempotentUnaryRequest]) (*connect.Response[conformancev1.IdempotentUnaryResponse], error) {
	said, err := requestInfo(ctx, req.Header(), req.Peer().Query, req.Msg)
	if err != nil {
		return nil, err
	}
	payload, err := answer(ctx, said, req.Msg.GetResponseDefinition())
	if err != nil {
		return nil, err
	}
	res := connect.NewResponse(&conformancev1.IdempotentUnaryResponse{Payload: payload})
	dress(res, req.Msg.GetResponseDefinition())
	return res, nil
}

func (conformance) ClientStream(ctx context.Context, stream *connect.ClientStream[conformancev1.ClientStreamRequest]) (*connect.Response[conformancev1.ClientStreamResponse], error) {
	var want *conformancev1.UnaryResponseDefinition
	var messages []proto.Message
	for stream.Receive() {
		if len(messages) == 0 {
			want = stream.Msg().GetResponseDefinition()
		}
		messages = append(messages, stream.Msg())
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	said, err := requestInfo(ctx, stream.RequestHeader(), stream.Peer().Query, messages...)
	if err != nil {
		return nil, err
	}
	payload, err := answer(ctx, said, want)
	if err != nil {
		return nil, err
	}
	res := connect.NewResponse(&conformancev1.ClientStreamResponse{Payload: payload})
	dress(res, want)
	return res, nil
}

func (conformance) ServerStream(ctx context.Context, req *connect.Request[conformancev1.ServerStreamRequest], stream *connect.ServerStream[conformancev1.ServerStreamResponse]) error {
	want := req.Msg.GetResponseDefinition()
	addHeaders(stream.ResponseHeader(), want.GetResponseHeaders())
	addHeaders(stream.ResponseTrailer(), want.GetResponseTrailers())
	said, err := requestInfo(ctx, req.Header(), req.Peer().Query, req.Msg)
	if err != nil {
		return err
	}
	if len(want.GetResponseData()) > 0 {
		if err := stream.Send(nil); err != nil { // the headers, at once
			return err
		}
	}
	for i, data := range want.GetResponseData() {
		payload := &conformancev1.ConformancePayload{Data: data}
		if i == 0 {
			payload.RequestInfo = said
		}
		if err := pause(ctx, want.GetResponseDelayMs()); err != nil {
			return err
		}
		if err := stream.Send(&conformancev1.ServerStreamResponse{Payload: payload}); err != nil {
			return err
		}
	}
	return failureOf(want, said, len(want.GetResponseData()) == 0)
}

// BidiStream sends one of the requested responses for each message if the
// stream is full-duplex, and the others when the client has finished.
func (conformance) BidiStream(ctx context.Context, stream *connect.BidiStream[conformancev1.BidiStreamRequest, conformancev1.BidiStreamResponse]) error {
	var want *conformancev1.StreamResponseDefinition
	var waiting []proto.Message // not yet told of in an answer
	first, full, sent := true, false, 0
	info := func() (*conformancev1.ConformancePayload_RequestInfo, error) {
		said, err := requestInfo(ctx, stream.RequestHeader(), stream.Peer().Query, waiting...)
		if err == nil && sent > 0 { // only what is new
			said = &conformancev1.ConformancePayload_RequestInfo{Requests: said.GetRequests()}
		}
		return said, err
	}
	send := func(said *conformancev1.ConformancePayload_RequestInfo) error {
		payload := &conformancev1.ConformancePayload{Data: want.GetResponseData()[sent], RequestInfo: said}
		if err := pause(ctx, want.GetResponseDelayMs()); err != nil {
			return err
		}
		sent++
		return stream.Send(&conformancev1.BidiStreamResponse{Payload: payload})
	}
	for {
		req, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		waiting = append(waiting, req)
		if first {
			want, full, first = req.GetResponseDefinition(), req.GetFullDuplex(), false
			addHeaders(stream.ResponseHeader(), want.GetResponseHeaders())
			addHeaders(stream.ResponseTrailer(), want.GetResponseTrailers())
			if full && len(want.GetResponseData()) > 0 {
				if err := stream.Send(nil); err != nil {
					return err
				}
			}
		}
		if !full {
			continue
		}
		if sent >= len(want.GetResponseData()) {
			break
		}
		said, err := info()
		if err != nil {
			return err
		}
		waiting = nil
		if err := send(said); err != nil {
			return err
		}
	}
	said, err := info()
	if err != nil {
		return err
	}
	if !full && len(want.GetResponseData()) > 0 {
		if err := stream.Send(nil); err != nil {
			return err
		}
	}
	for sent < len(want.GetResponseData()) {
		about := said
		if sent > 0 {
			about = nil
		}
		if err := send(about); err != nil {
			return err
		}
	}
	return failureOf(want, said, sent == 0)
}

// requestInfo describes a request as the server saw it.
func requestInfo(ctx context.Context, header http.Header, query url.Values, messages ...proto.Message) (*conformancev1.ConformancePayload_RequestInfo, error) {
	said := &conformancev1.ConformancePayload_RequestInfo{RequestHeaders: listed(header)}
	for _, m := range messages {
		packed, err := anypb.New(m)
		if err != nil {
			return nil, err
		}
		said.Requests = append(said.Requests, packed)
	}
	if len(query) > 0 {
		said.ConnectGetInfo = &conformancev1.ConformancePayload_ConnectGetInfo{QueryParams: listed(query)}
	}
	if deadline, ok := ctx.Deadline(); ok {
		said.TimeoutMs = proto.Int64(time.Until(deadline).Milliseconds())
	}
	return said, nil
}

// answer returns the requested payload or error.
func answer(ctx context.Context, said *conformancev1.ConformancePayload_RequestInfo, want *conformancev1.UnaryResponseDefinition) (*conformancev1.ConformancePayload, error) {
	if e := want.GetError(); e != nil {
		err := errorOf(e, said)
		addHeaders(err.Meta(), want.GetResponseHeaders())
		addHeaders(err.Meta(), want.GetResponseTrailers())
		return nil, err
	}
	if err := pause(ctx, want.GetResponseDelayMs()); err != nil {
		return nil, err
	}
	return &conformancev1.ConformancePayload{Data: want.GetResponseData(), RequestInfo: said}, nil
}

func dress(res headed, want *conformancev1.UnaryResponseDefinition) {
	addHeaders(res.Header(), want.GetResponseHeaders())
	addHeaders(res.Trailer(), want.GetResponseTrailers())
}

// failureOf returns the error that a stream should end with. It describes the
// request if no message did.
func failureOf(want *conformancev1.StreamResponseDefinition, said *conformancev1.ConformancePayload_RequestInfo, tell bool) error {
	e := want.GetError()
	if e == nil {
		return nil
	}
	if !tell {
		said = nil
	}
	return errorOf(e, said)
}

func errorOf(e *conformancev1.Error, said *conformancev1.ConformancePayload_RequestInfo) *connect.Error {
	out := connect.NewError(connect.Code(e.GetCode()), errors.New(e.GetMessage()))
	details := make([]proto.Message, 0, len(e.GetDetails())+1)
	for _, d := range e.GetDetails() {
		details = append(details, d)
	}
	if said != nil {
		details = append(details, said)
	}
	for _, d := range details {
		if detail, err := connect.NewErrorDetail(d); err == nil {
			out.AddDetail(detail)
		}
	}
	return out
}

// pause waits for the given milliseconds, or until the call ends.
func pause(ctx context.Context, ms uint32) error {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func listed(values map[string][]string) []*conformancev1.Header {
	var out []*conformancev1.Header
	for name, value := range values {
		out = append(out, &conformancev1.Header{Name: name, Value: value})
	}
	return out
}

func addHeaders(to http.Header, headers []*conformancev1.Header) {
	for _, h := range headers {
		for _, v := range h.GetValue() {
			to.Add(h.GetName(), v)
		}
	}
}
