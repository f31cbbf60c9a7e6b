package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// kindVariable makes this test binary act as a server of that kind.
const kindVariable = "ALOFT_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(kindVariable); kind != "" {
		if err := serve(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		return
	}
	os.Exit(m.Run())
}

// serve runs a real MCP server, or a hostile one.
func serve(kind string) error {
	switch kind {
	case "exits":
		return errors.New("no licence: the token is " + os.Getenv("SECRET_TOKEN"))
	case "silent":
		select {}
	case "huge":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<20)); err != nil {
				return err
			}
		}
	case "garbage":
		in := bufio.NewReader(os.Stdin)
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		for _, line := range []string{`{"jsonrpc":"2.0","id":1,"result":[1,2]}`, `{"jsonrpc":`, `null`, `[]`, `{"jsonrpc":"2.0","id":{},"result":{}}`, "\x00\xff"} {
			fmt.Println(line)
		}
		return errors.New("done")
	case "flood":
		go func() {
			for {
				if _, err := fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`); err != nil {
					os.Exit(1)
				}
			}
		}()
	case "banner":
		fmt.Print("Welcome to the server!\n{not json}\n\n")
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ServerOptions{Instructions: "Call echo first."})
	type nothing struct{}
	type text struct {
		Text string `json:"text"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Says it again."}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "variables"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, any, error) {
		dir, err := os.Getwd()
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: dir + "\n" + strings.Join(os.Environ(), "\n")}, &sdk.TextContent{Text: strings.Join(os.Args[1:], " ")}}}, nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("it cannot")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "show"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{
			Content: []sdk.Content{
				&sdk.TextContent{Text: "two pieces"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")}, &sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("wav")},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "test://a", MIMEType: "text/plain", Text: "inside"}}, &sdk.ResourceLink{URI: "test://notes", Name: "notes"},
			},
			StructuredContent: map[string]any{"n": 1},
		}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "children"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, any, error) {
		var pids []int
		for _, setsid := range []bool{false, true} {
			cmd := exec.Command("sleep", "1000")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
			if err := cmd.Start(); err != nil {
				return nil, nil, err
			}
			pids = append(pids, cmd.Process.Pid)
		}
		said, err := json.Marshal(append(pids, os.Getpid()))
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(said)}}}, nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "die"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, any, error) {
		os.Exit(4)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ nothing) (*sdk.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "more"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, &sdk.Tool{Name: "added"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "new"}}}, nil, nil
		})
		return &sdk.CallToolResult{}, nil, nil
	})
	s.AddResource(&sdk.Resource{URI: "test://notes", Name: "notes", MIMEType: "text/plain"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://notes", MIMEType: "text/plain", Text: "buy milk"}}}, nil
	})
	s.AddResource(&sdk.Resource{URI: "test://blob", Name: "blob"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://blob", MIMEType: "application/zip", Blob: []byte{0, 1, 2}}}}, nil
	})
	if kind == "many" {
		for i := range 2000 {
			s.AddTool(&sdk.Tool{Name: fmt.Sprintf("t%04d", i), Description: strings.Repeat("x", 5000), InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					return &sdk.CallToolResult{}, nil
				})
		}
	}
	return s.Run(context.Background(), &sdk.StdioTransport{})
}
