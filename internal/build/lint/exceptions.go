package lint

import "strings"

// Exceptions maps findings that may stay to the reason why. A key is the Key of a finding, or
// a file or folder for all findings in it.
type Exceptions map[string]string

// cover returns the key that allows a finding, and whether there is one.
func (e Exceptions) cover(finding Finding) (key string, ok bool) {
	for key = finding.Key; ; {
		if _, ok := e[key]; ok {
			return key, true
		}
		at := strings.LastIndexAny(key, "/:")
		if at < 0 {
			return "", false
		}
		key = key[:at]
	}
}
