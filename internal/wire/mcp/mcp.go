// Package mcp is a client of the Model Context Protocol for tools alone: it lists the tools of a
// server and calls them. The official SDK, with which the tests hold it together, would make the
// binary 1.6 MB larger, which is more than its limit allows, and reads a JSON answer of any size.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// version is the newest version of the protocol that the client speaks. A server may choose an
// older one; what the client uses is the same in all of them.
const version = "2025-06-18"

// Transport carries messages to a server. One goroutine at a time uses it.
type Transport interface {
	// Notify sends a message that has no answer.
	Notify(ctx context.Context, message []byte) error
	// Ask sends a request and returns its answer, the message for which isAnswer is true.
	Ask(ctx context.Context, request []byte, isAnswer func([]byte) bool) ([]byte, error)
}

// Client is a session with a server.
type Client struct {
	transport Transport
	asked     int
}

// Tool is a tool of a server.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// Result is a tool's answer.
type Result struct {
	Content           []Content       `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
}

// Content is a part of a tool's answer.
type Content struct {
	Type string `json:"type"` // text, image, audio, resource, resource_link
	Text string `json:"text"` // of a text
}

// Error is what a server answers to a request that it does not accept.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("the server answers %q (code %d)", e.Message, e.Code)
}

// message is a message of JSON-RPC.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      *int            `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Connect begins a session.
func Connect(ctx context.Context, t Transport) (*Client, error) {
	c := &Client{transport: t}
	var server struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	err := c.ask(ctx, "initialize", map[string]any{
		"protocolVersion": version, "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "trinity", "version": "1"},
	}, &server)
	if err != nil {
		return nil, err
	}
	if server.ProtocolVersion == "" {
		return nil, errors.New("the server names no version of the protocol")
	}
	if h, ok := t.(*HTTP); ok {
		h.version = server.ProtocolVersion
	}
	ready, err := json.Marshal(message{Version: "2.0", Method: "notifications/initialized"})
	if err != nil {
		return nil, err
	}
	return c, t.Notify(ctx, ready)
}

// ask sends a request and reads its result.
func (c *Client) ask(ctx context.Context, method string, params, result any) error {
	c.asked++
	id := c.asked
	request, err := json.Marshal(message{Version: "2.0", ID: &id, Method: method, Params: params})
	if err != nil {
		return err
	}
	line, err := c.transport.Ask(ctx, request, func(line []byte) bool {
		var m message
		return json.Unmarshal(line, &m) == nil && m.ID != nil && *m.ID == id && m.Method == ""
	})
	if err != nil {
		return err
	}
	var answer message
	if err := json.Unmarshal(line, &answer); err != nil {
		return fmt.Errorf("the answer %.80q is no message: %w", line, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return json.Unmarshal(answer.Result, result)
}

// Tools lists the tools of the server.
func (c *Client) Tools(ctx context.Context) (all []Tool, err error) {
	params := map[string]string{}
	for range 1000 {
		var page struct {
			Tools      []Tool `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}
		if err := c.ask(ctx, "tools/list", params, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Tools...)
		if page.NextCursor == "" {
			return all, nil
		}
		params["cursor"] = page.NextCursor
	}
	return nil, errors.New("the list of tools has no end")
}

// Call calls a tool. What the tool finds wrong is a result with IsError; that the server does not know
// the tool is an [Error].
func (c *Client) Call(ctx context.Context, name string, arguments json.RawMessage) (*Result, error) {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	r := &Result{}
	return r, c.ask(ctx, "tools/call", map[string]any{"name": name, "arguments": arguments}, r)
}

// Ping asks the server whether it still answers.
func (c *Client) Ping(ctx context.Context) error { return c.ask(ctx, "ping", nil, &struct{}{}) }
