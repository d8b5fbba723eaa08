package report

import (
	"strings"
	"unicode/utf8"
)

// Client is who asks: a user, and the name of the program without its version.
type Client struct {
	User      string `json:"user"`
	UserAgent string `json:"userAgent"`
}

// Names are as long as clients make them: these bounds, in bytes, keep accounts
// small.
const (
	maxUser    = 128
	maxProgram = 48
)

// NewClient names who asks. It keeps no reference beyond its arguments' bytes;
// who stores it for long clones it.
func NewClient(user, userAgent string) Client {
	return Client{User: truncate(user, maxUser), UserAgent: Program(userAgent)}
}

// Program is the name of the program in a user agent, without its version and what
// else follows: "kubelet" of "kubelet/v1.36.3 (linux/amd64) kubernetes/abc".
func Program(userAgent string) string {
	for i := 0; i < len(userAgent) && i < maxProgram; i++ {
		if b := userAgent[i]; b == '/' || b <= ' ' || b > '~' {
			return userAgent[:i]
		}
	}
	return userAgent[:min(len(userAgent), maxProgram)]
}

// Name is how people know a client.
func (c *Client) Name() string {
	switch {
	case c.User == "":
		return c.UserAgent
	case c.UserAgent == "":
		return c.User
	}
	return c.UserAgent + " (" + c.User + ")"
}

// Clone lets go of what the names were cut from, such as a long header.
func (c Client) Clone() Client {
	return Client{User: strings.Clone(c.User), UserAgent: strings.Clone(c.UserAgent)}
}

// truncate shortens text to some bytes, at the beginning of a character.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
