//go:build !unix

package top

import "os"

// watchResizes returns a nil channel, which never receives. Without a signal for
// resizes, the new size takes effect with the next refresh.
func watchResizes() (<-chan os.Signal, func()) { return nil, func() {} }
