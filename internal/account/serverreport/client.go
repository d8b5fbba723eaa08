package serverreport

import (
	"strings"
	"unicode/utf8"
)

// Client is a sender of requests: a user, and the name of a program without version.
type Client struct {
	User      string `json:"user"`
	UserAgent string `json:"userAgent"`
}

// Bounds of names, in bytes. Clients choose names, and accounts keep them.
const (
	maxUser    = 128
	maxProgram = 48
)

// NewClient returns the client of a request. Its strings share memory with the
// arguments: a caller that keeps the client clones it.
func NewClient(user, userAgent string) Client {
	return Client{User: truncate(user, maxUser), UserAgent: Program(userAgent)}
}

// Program returns the name of the program in a user agent, without its version and all
// that follows: "kubelet" for "kubelet/v1.36.3 (linux/amd64) kubernetes/abc".
func Program(userAgent string) string {
	for i := 0; i < len(userAgent) && i < maxProgram; i++ {
		if b := userAgent[i]; b == '/' || b <= ' ' || b > '~' {
			return userAgent[:i]
		}
	}
	return userAgent[:min(len(userAgent), maxProgram)]
}

// Name returns the client as text, as in "kubelet (system:node:a)".
func (c *Client) Name() string {
	switch {
	case c.User == "":
		return c.UserAgent
	case c.UserAgent == "":
		return c.User
	}
	return c.UserAgent + " (" + c.User + ")"
}

// Clone copies the names, so that they do not keep a long header in memory.
func (c Client) Clone() Client {
	return Client{User: strings.Clone(c.User), UserAgent: strings.Clone(c.UserAgent)}
}

// truncate cuts text to at most some bytes, between two characters.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
