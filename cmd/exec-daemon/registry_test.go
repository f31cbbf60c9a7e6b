package main

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

var (
	registryRow  = regexp.MustCompile("(?m)^\\| (\\d+) \\| `(\\w+)` \\| (.*) \\| (.*) \\| (.*) \\|$")
	registryName = regexp.MustCompile(`\[(\w+)\]`)
)

// TestRegistryOfTheRunningDaemon compares each row of the registry in the
// reference with a running daemon. The daemon must have the tools that act in
// the machine, and must say what the others require.
func TestRegistryOfTheRunningDaemon(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, func(d *daemon) {
		d.more = []string{"--record-screen-enabled", "--generate-image-enabled", "--rg-path", "/no/rg"}
	})
	control := agentv1connect.NewControlServiceClient(http.DefaultClient, "http://"+d.addr)
	calls := 0
	answer := func(call *agentv1.ToolCall) string {
		t.Helper()
		calls++
		req := connect.NewRequest(&agentv1.ExecRequest{CallId: "r" + strconv.Itoa(calls), ToolCall: call})
		req.Header().Set("Authorization", "Bearer "+token)
		stream, err := control.Exec(within(t), req)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for stream.Receive() {
			if done := stream.Msg().GetCompleted(); done != nil {
				return done.GetText()
			}
		}
		t.Fatalf("%v: %v", call, stream.Err())
		return ""
	}
	fields := new(agentv1.ToolCall).ProtoReflect().Descriptor().Oneofs().ByName("tool").Fields()
	rows := registryRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) != fields.Len() {
		t.Errorf("the page has %d rows, want %d", len(rows), fields.Len())
	}
	for _, row := range rows {
		number, _ := strconv.Atoi(row[1]) // the pattern matches only digits
		field := fields.ByNumber(protoreflect.FieldNumber(number))
		if field == nil || string(field.Name()) != row[2] {
			t.Errorf("%s: %v has that number", row[0], field)
			continue
		}
		empty := new(agentv1.ToolCall)
		empty.ProtoReflect().Mutable(field)
		want := "has no arguments"
		if row[3] == "" {
			want = row[2] + " is not available: needs " + row[5]
		}
		if said := answer(empty); !strings.Contains(said, want) || row[3]+row[5] == "" {
			t.Errorf("%s: without arguments: %q", row[0], said)
		}
		for _, name := range registryName.FindAllStringSubmatch(row[3], -1) {
			call := withArguments(field, name[1])
			if call == nil {
				t.Errorf("%s: it has no arguments of %s", row[0], name[1])
				continue
			}
			if said := answer(call); strings.Contains(said, "not available") == (row[4] == "in the machine") {
				t.Errorf("%s: %s: %q", row[0], name[1], said)
			}
		}
	}
}

// withArguments returns a call of the tool with empty arguments, or nil if the
// tool has none.
func withArguments(of protoreflect.FieldDescriptor, name string) *agentv1.ToolCall {
	call := new(agentv1.ToolCall)
	variant := call.ProtoReflect().Mutable(of).Message()
	for i := range of.Message().Fields().Len() {
		field := of.Message().Fields().Get(i)
		if field.Kind() != protoreflect.MessageKind {
			continue
		}
		if options, ok := proto.GetExtension(field.Message().Options(), agentv1.E_Tool).(*agentv1.ToolOptions); ok && options.GetName() == name {
			variant.Mutable(field)
			return call
		}
	}
	return nil
}
