package features

var defaultVersionedKubernetesFeatureGates = map[featuregate.Feature]featuregate.VersionedSpecs{
	Kept: {
		{Version: version.MustParse("1.0"), Default: false, PreRelease: featuregate.Alpha},
	},
	Grown: {
		{Version: version.MustParse("1.0"), Default: false, PreRelease: featuregate.Alpha},
		{Version: version.MustParse("1.2"), Default: true, PreRelease: featuregate.Beta},
	},
	Locked: {
		{Version: version.MustParse("1.1"), Default: true, PreRelease: featuregate.GA},
	},
	Past: {
		{Version: version.MustParse("1.1"), Default: true, LockToDefault: true, PreRelease: featuregate.GA},
	},
}
