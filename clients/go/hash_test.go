// SPDX-License-Identifier: Apache-2.0

package sluice

import "testing"

// The values are those of libxxhash 0.8.
func TestHashIsTheOneOfTheNodes(t *testing.T) {
	in := make([]byte, hashMax)
	for i := range in {
		in[i] = byte(i*7 + 1)
	}
	for _, c := range []struct {
		len  int
		seed uint64
		want uint64
	}{
		{1, 0, 0xe12ef9d2eb86ceeb},
		{3, 0, 0x5c83885a0fb5d516},
		{4, 0, 0x244f36de481e7522},
		{8, 0, 0x96cc97a6768fd7a9},
		{9, 0, 0x4781d83b8e99d495},
		{16, 0, 0x913bd4a8038027a7},
		{17, 0, 0x2bf6f66973a6179d},
		{32, 0, 0x5d503b89ae6f56c6},
		{33, 0, 0xb192963ede5ed5ab},
		{64, 0, 0x13886553e7dc3fa3},
		{65, 0, 0x1c6516cc715d0a0e},
		{100, 0, 0x985c0aa35f523fe6},
		{128, 0, 0xc4399c7829d0628f},
		{129, 0, 0x8433489056750b32},
		{144, 0, 0xd917ecabc86549b2},
		{200, 0, 0x70d27115faab301e},
		{240, 0, 0x3c0bb96864e543a1},
		{2, 3, 0x9c72ef8fc6044e61},
		{5, 3, 0x427f71afd3d2af2e},
		{16, 3, 0x3758b4a0d2235ac0},
		{48, 3, 0x09fdcdb50c642e91},
		{130, 3, 0xca350966f6655376},
	} {
		if got := hash64(in[:c.len], c.seed); got != c.want {
			t.Errorf("%d bytes, seed %d: %016x, want %016x", c.len, c.seed, got, c.want)
		}
	}
}
