package render

import "testing"

func TestFormats(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.00 kB", 4096: "4.10 kB", 999_499: "999 kB", 999_600: "1.00 MB",
		39_800_000: "39.8 MB", 1_740_000_000: "1.74 GB", -5000: "-5.00 kB"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.00", 0.734: "0.734", 0.0312: "0.031", 1.2: "1.20", 9.996: "10.0", 49.7: "49.7", 99.96: "100", 1234.5: "1234"} {
		if got := FormatNumber(v); got != want {
			t.Errorf("%g: got %q, want %q", v, got, want)
		}
	}
	if got := FormatRatio(696, 0); got != "-" {
		t.Errorf("got %q", got)
	}
}
