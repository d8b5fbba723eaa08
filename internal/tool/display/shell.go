package display

import "strings"

// ShellWord quotes an argument of a command that is shown, so that a shell takes it for one.
func ShellWord(argument string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+~"
	if argument != "" && strings.Trim(argument, plain) == "" {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
