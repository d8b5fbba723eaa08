package display

import "strings"

// ShellWord returns an argument of a command that is shown, quoted if a shell would not take it
// for one word.
func ShellWord(argument string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+~"
	if argument != "" && strings.Trim(argument, plain) == "" {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
