-- For wrk: what the shop's users do. Of ten pages five are lists, four are products, one is a purchase.
bought, wrong = 0, 0
local thread

function setup(one) -- there is one
   thread = one
end

function init()
   math.randomseed(1)
end

function request()
   local page, id = math.random(10), math.random(1000)
   if page == 1 then
      local headers = { ["Content-Type"] = "application/x-www-form-urlencoded" }
      return wrk.format("POST", "/buy.php", headers, "number=" .. math.random(3) .. "&id=" .. id)
   end
   return wrk.format("GET", page <= 5 and "/product.php?id=" .. id or "/list.php?shelf=" .. id % 40)
end

function response(status, headers, body)
   if status ~= 200 or not body:find("</html>", 1, true) then
      wrong = wrong + 1
   end
   bought = bought + (body:match("You bought (%d+)") or 0)
end

function done(summary, latency)
   local errors = summary.errors
   wrong = thread:get("wrong") + errors.connect + errors.read + errors.write + errors.timeout
   io.write(string.format('{"requests": %d, "seconds": %f, "p99": %f, "bought": %d, "wrong": %d}\n',
      summary.requests, summary.duration / 1e6, latency:percentile(99) / 1e3, thread:get("bought"), wrong))
end
